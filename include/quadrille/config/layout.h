// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A layout as people write it: `data=2,tensor=2,sequence=1,sharding=1`. The same words everywhere:
// on the command line, in plans, in messages. What is not named has its default.

#include <string>
#include <string_view>

#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"

namespace quadrille {

struct Layout {
  ParallelSpec parallel;
  std::int64_t micro_batch = 0;  ///< 0: the job's.
};

/// Errors: kInvalid naming the word that is wrong and what it could be.
[[nodiscard]] Result<Layout> parse_layout(std::string_view text);

/// What differs from the defaults, `data` always: "data=2,tensor=2".
[[nodiscard]] std::string layout_text(const ParallelSpec& parallel);

}  // namespace quadrille
