// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint_wait.h"

namespace quadrille::internal {

Result<void> wait_for_checkpoint(RankBase& base, Stopwatch& watch) {
  const PhaseScope phase(watch, Phase::kOther);
  QD_ASSIGN_OR_RETURN(base.checkpoint_wait, base.saver->wait_until_read());
  return {};
}

}  // namespace quadrille::internal
