// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A real training run small enough for a unit test: a few thousand parameters on a text that the
// test makes, ranks as threads.

#include <functional>
#include <string>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/observe/run_record.h"
#include "quadrille/train/trainer.h"

namespace quadrille::test {

/// A folder that is removed at the end of the test.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Text with structure to learn: sentences drawn from a few words. Deterministic in `seed`.
[[nodiscard]] std::string small_text(std::size_t bytes, std::uint64_t seed = 1);

/// A job over `folder`/text.txt (written here) that trains in milliseconds: 2 layers of width 24.
[[nodiscard]] JobSpec tiny_job(const std::string& folder);
/// That job with a Llama: grouped keys and values, heads that do not divide the width, positions
/// that turn, an untied head.
[[nodiscard]] JobSpec tiny_llama_job(const std::string& folder);

struct TinyRunOptions {
  std::string run_directory;
  ResumePolicy resume = ResumePolicy::kNever;
  const StopSignal* stop = nullptr;
  bool guarded = false;  ///< On the device whose memory the host cannot touch.
  int threads = 0;       ///< Of each rank's pool, on the cores that it has; 0: one a core.
};

/// Plans the job and trains it on threads; the outcome of rank 0.
[[nodiscard]] Result<TrainingOutcome> run_tiny(const JobSpec& job, const TinyRunOptions& options);

/// The losses of a run directory's metrics, by step from 1.
[[nodiscard]] std::vector<double> losses_of(const std::string& run_directory);

}  // namespace quadrille::test
