// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which data-parallel degree and which micro-batch a job gets, and why. Candidates are tried from
// the most ranks and the largest micro-batch down; the first that fits the memory wins.

#include <string>
#include <vector>

#include "plan/memory_model.h"
#include "quadrille/base/result.h"
#include "quadrille/plan/plan.h"

namespace quadrille::internal {

/// A forward of more tokens than this is not chosen by itself: its matrix products already run at
/// full speed with far fewer rows, and its activations would only take more memory.
inline constexpr std::int64_t kForwardTokensMost = 4096;

struct LayoutChoice {
  LayoutCandidate layout;
  RankMemory memory;
  Bytes available;  ///< To one rank; 0: unknown.
  std::vector<std::string> reasons;
};

/// Errors: kInvalid with paths where the batch cannot be divided as asked; kExhausted where no
/// candidate fits.
[[nodiscard]] Result<LayoutChoice> choose_layout(const JobSpec& job, const MachineFacts& machine);

/// What one of `ranks` ranks may lease: the job's limit, or its share of nine tenths of the
/// machine's memory (the rest is for the system, libraries and the page cache); 0: unknown.
[[nodiscard]] Bytes available_to_rank(const JobSpec& job, const MachineFacts& machine, int ranks);

}  // namespace quadrille::internal
