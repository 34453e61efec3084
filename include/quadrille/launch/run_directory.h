// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a run leaves everything: one folder, its layout (RunPaths) and the lock that keeps a second
// launch out of it (RunDirectory). The lock is the kernel's, so it ends with the launcher however
// that dies; ranks hold a second, shared one, so that a new launch waits for the ranks of a dead
// one.

#include <string>
#include <string_view>

#include "quadrille/base/ids.h"
#include "quadrille/base/result.h"

namespace quadrille {

/// The names inside a run directory; touches no disk.
struct RunPaths {
  std::string directory;

  [[nodiscard]] std::string job() const { return directory + "/job.json"; }
  [[nodiscard]] std::string plan() const { return directory + "/plan.json"; }
  [[nodiscard]] std::string metrics() const { return directory + "/metrics.jsonl"; }
  [[nodiscard]] std::string events() const { return directory + "/events.jsonl"; }
  [[nodiscard]] std::string checkpoints() const { return directory + "/checkpoints"; }
  [[nodiscard]] std::string logs() const { return directory + "/logs"; }
  /// `logs/rank-0000.log`: what the rank says of itself.
  [[nodiscard]] std::string rank_log(Rank rank) const;
  /// What a rank of a launch that is profiled leaves for the launcher, which makes profile() and
  /// trace() of all of them.
  [[nodiscard]] std::string rank_profile(Rank rank) const;
  [[nodiscard]] std::string profile() const { return directory + "/profile.json"; }
  [[nodiscard]] std::string trace() const { return directory + "/trace.json"; }
  /// What rank processes and mpirun print, of all ranks together.
  [[nodiscard]] std::string output() const { return directory + "/logs/ranks.out"; }
};

/// `runs/<job name>-20261201T121314Z`; characters that a folder's name should not have become '-'.
[[nodiscard]] std::string default_run_directory(std::string_view job_name);

/// A run directory that this process holds. Moving keeps the lock; destruction frees it.
class RunDirectory {
 public:
  /// Creates the folder with logs/ and checkpoints/, or takes an existing one, locks it, waits up
  /// to 5 seconds for ranks of a dead launcher, and points the neighbour `latest` at it if its
  /// parent is named `runs`. Errors: kInvalid where another launch holds it, naming its pid;
  /// kUnavailable where ranks of an earlier launch do not end; kNotFound, kExhausted or kInternal
  /// where it cannot be written.
  [[nodiscard]] static Result<RunDirectory> open(const std::string& path);
  RunDirectory(RunDirectory&& other) noexcept;
  RunDirectory& operator=(RunDirectory&& other) noexcept;
  ~RunDirectory();

  [[nodiscard]] const RunPaths& paths() const { return paths_; }
  /// A run was started here before: job.json exists.
  [[nodiscard]] bool existed() const { return existed_; }
  /// Unique per launch, short, fit for names in /dev/shm.
  [[nodiscard]] const std::string& run_id() const { return run_id_; }

 private:
  RunDirectory() = default;
  RunPaths paths_;
  std::string run_id_;
  bool existed_ = false;
  int lock_ = -1;
};

/// Held by each rank process for its life. Moving keeps it.
class RankLock {
 public:
  /// Errors: kNotFound where there is no such run directory.
  [[nodiscard]] static Result<RankLock> take(const RunPaths& paths);
  RankLock(RankLock&& other) noexcept;
  RankLock& operator=(RankLock&& other) noexcept;
  ~RankLock();

 private:
  RankLock() = default;
  int lock_ = -1;
};

}  // namespace quadrille
