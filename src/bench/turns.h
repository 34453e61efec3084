// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trainings that take their steps in turns, so that what disturbs the machine disturbs all of them:
// each waits, asleep, while another has its turn.

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/observe/profile.h"
#include "quadrille/observe/run_record.h"

namespace quadrille::internal {

/// Whose turn it is: players 0, 1, ... of round 0, then of round 1, and so on.
class Turnstile {
 public:
  explicit Turnstile(int players) : players_(players) {}
  /// Blocks until it is that turn; false where the game is over.
  [[nodiscard]] bool await(int player, int round);
  /// The turn that goes on ends.
  void pass();
  void close();

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  const int players_;
  std::int64_t turn_ = 0;
  bool is_closed_ = false;
};

/// A training run in this process, ranks as threads, whose every step is measured.
struct Contestant {
  std::string name;
  JobSpec job;         ///< `steps` are its rounds.
  int threads = 1;     ///< Of each rank.
  bool saves = false;  ///< Checkpoints as the job says.
  /// Run by rank 0, on its pool, after each step and inside its turn.
  std::function<void(int round)> between = [](int) {};

  // What comes out, from rank 0, by round.
  std::vector<double> seconds;      ///< From one step's end to the next one's, turns of others
                                    ///< and `between` left out.
  std::vector<double> page_faults;  ///< Of the process in that time.
  std::vector<StepRecord> records;
  StepsProfile profile;
};

/// Runs all of them for `rounds` rounds. `last`, on the calling thread, has the last turn of each
/// round. Errors: the first of a contestant.
[[nodiscard]] Result<void> run_in_turns(std::vector<Contestant>& contestants, int rounds,
                                        const std::string& folder,
                                        const std::function<Result<void>(int round)>& last);

}  // namespace quadrille::internal
