// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a benchmark puts its files, and the files that a training needs.

#include <memory>
#include <string>

#include "quadrille/base/result.h"
#include "quadrille/bench/benchmarks.h"
#include "quadrille/observe/run_record.h"

namespace quadrille::internal {

/// The setting's folder, or one of its own that is removed at the end.
class BenchFolder {
 public:
  [[nodiscard]] static Result<BenchFolder> make(const BenchSetting& setting);
  BenchFolder(BenchFolder&& other) noexcept;
  BenchFolder& operator=(BenchFolder&&) = delete;
  ~BenchFolder();
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  BenchFolder() = default;
  std::string path_;
  bool is_own_ = false;
};

/// A token file of `tokens` random ids below `vocab`.
[[nodiscard]] Result<void> write_tokens(const std::string& path, std::int64_t tokens,
                                        std::int64_t vocab);

/// A job that trains `model` on the file, `tokens.sequences` a step over `ranks`.
[[nodiscard]] JobSpec bench_job(const ModelSpec& model, StepTokens tokens, int ranks,
                                const std::string& file);

/// Runs the job's ranks as MPI processes of `command` to their end.
[[nodiscard]] Result<void> launch_by_mpi(const JobSpec& job, const std::string& directory,
                                         const std::vector<std::string>& command);

/// Trains the job by MPI processes of `program rank --unsaved`; the rows of its metrics.
[[nodiscard]] Result<std::vector<StepRecord>> train_by_mpi(const JobSpec& job,
                                                           const std::string& directory,
                                                           const std::string& program);

/// Threads of one process: the setting's, or a core each.
[[nodiscard]] Result<int> threads_of(const BenchSetting& setting);
/// Pins the calling thread to all cores and sizes its pool.
[[nodiscard]] Result<void> bind_pool(int threads);

}  // namespace quadrille::internal
