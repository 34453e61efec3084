// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the launcher knows of its ranks, and the first failure among them. Pure: it is told events
// and answers questions.

#include <optional>
#include <string>
#include <vector>

#include "quadrille/base/ids.h"
#include "quadrille/base/result.h"
#include "quadrille/launch/control_channel.h"

namespace quadrille::internal {

struct RankEntry {
  bool greeted = false;
  bool ended = false;  ///< Finished, failed or lost.
  std::optional<RankEnd> finished;
  int pid = 0;
  std::string host;
};

struct FirstFailure {
  std::optional<Rank> rank;  ///< Nothing: no single rank is known.
  bool lost = false;         ///< It vanished, in contrast to saying why.
  bool follows = false;      ///< It says itself that it only follows another's failure.
  Error error;
  std::string place;
};

class RankBook {
 public:
  explicit RankBook(int ranks) : ranks_(static_cast<std::size_t>(ranks)) {}

  /// True where this is the first failure, so that the others must be stopped.
  bool add(const ControlEvent& event);
  /// A failure that no rank told: a start that timed out, an exit code. Kept if it is the first.
  void add_failure(FirstFailure failure);

  [[nodiscard]] const std::optional<FirstFailure>& failure() const { return failure_; }
  [[nodiscard]] bool all_greeted() const;
  [[nodiscard]] bool any_greeted() const;
  [[nodiscard]] bool all_ended() const;
  /// A rank ended early because it was asked to.
  [[nodiscard]] bool any_stopped() const;
  /// One process hosts every rank (and there are several).
  [[nodiscard]] bool shares_one_process() const;
  /// "rank 1, rank 3" of those that have not greeted.
  [[nodiscard]] std::string absent() const;
  [[nodiscard]] const RankEntry& entry(Rank rank) const {
    return ranks_[static_cast<std::size_t>(rank.value)];
  }
  [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }

 private:
  std::vector<RankEntry> ranks_;
  std::optional<FirstFailure> failure_;
};

}  // namespace quadrille::internal
