// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Names of the folders in a checkpoint directory, and the few moves between them. Each move is one
// rename, so a kill at any moment leaves the old state or the new one:
//
//   .partial-step-N-k    being written, or left by a dead run; never counts
//   step-N               a checkpoint
//   .replaced-step-N     the former step-N while the new one takes its place, on file systems that
//                        cannot exchange two folders; counts as step-N while that does not exist
//   .removed-step-N      on its way out

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"

namespace quadrille::internal {

[[nodiscard]] std::string step_folder_name(std::int64_t step);
/// `attempt` counts the saves of a run, so that a save of the same step twice cannot mix files.
[[nodiscard]] std::string partial_folder_name(std::int64_t step, std::int64_t attempt);
/// The N of step-N in exactly the form that step_folder_name gives it.
[[nodiscard]] std::optional<std::int64_t> step_of(std::string_view name);

struct StepFolder {
  std::int64_t step = 0;
  std::string path;
};
/// Oldest first, damaged or not.
[[nodiscard]] Result<std::vector<StepFolder>> step_folders(const std::string& directory);

/// Removes what dead runs left, and puts a replaced folder back whose successor never came.
[[nodiscard]] Result<void> clear_leftovers(const std::string& directory);

/// Makes `partial` the checkpoint of `step`, in place of a former one.
[[nodiscard]] Result<void> commit_folder(const std::string& directory, const std::string& partial,
                                         std::int64_t step);

/// Takes a checkpoint away: first its name, then its bytes.
[[nodiscard]] Result<void> remove_step(const std::string& directory, const StepFolder& folder);

}  // namespace quadrille::internal
