// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Follows a run's events.jsonl for what the user should hear of at once: a checkpoint that could
// not be saved, or that was passed over because it is damaged.

#include <ios>
#include <string>
#include <vector>

namespace quadrille::launcher {

class EventFollower {
 public:
  /// What the file holds already is not news.
  explicit EventFollower(std::string path);
  /// Warnings of events recorded since the last call, in words.
  [[nodiscard]] std::vector<std::string> poll();

 private:
  std::string path_;
  std::streamoff offset_ = 0;
};

}  // namespace quadrille::launcher
