// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A Program inside plan.json. Ranks with equal instructions share one list, so that data
// parallelism does not multiply the file:
// {"layers": 4, "micro_batches": 1, "stages": [{"ranks": [0, 1], "instructions":
// [["load_batch", 0, -1], ["forward", 0, 0], ...]}]}; an instruction is [kind, micro-batch, layer].

#include "quadrille/base/json.h"
#include "quadrille/base/result.h"
#include "quadrille/schedule/program.h"

namespace quadrille::internal {

[[nodiscard]] Json program_json(const Program& program);

/// Errors: kInvalid where the text is no program; whether it is a right one is verify()'s to say.
[[nodiscard]] Result<Program> program_from(const Json& json, std::int64_t ranks);

}  // namespace quadrille::internal
