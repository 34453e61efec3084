// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille rank: one rank process of a launch. With threads it hosts every rank, with MPI one.

#include "launcher/commands.h"
#include "quadrille/train/launched.h"

namespace quadrille::launcher {

int rank_command(bool saves) {
  const Result<void> done = run_launched([saves](World& world, const TrainerOptions& options) {
    TrainerOptions chosen = options;
    chosen.saves = saves;
    return train(world, chosen);
  });
  return done ? 0 : report_error(done.error());
}

}  // namespace quadrille::launcher
