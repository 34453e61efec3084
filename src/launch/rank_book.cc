// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launch/rank_book.h"

#include <fmt/format.h>

#include <algorithm>

namespace quadrille::internal {
namespace {

/// An agreed error begins with "rank N: ": N failed, whichever rank tells it.
std::optional<Rank> named_culprit(const std::string& message) {
  constexpr std::string_view kStart = "rank ";
  if (message.compare(0, kStart.size(), kStart) != 0) return std::nullopt;
  std::size_t at = kStart.size();
  int number = 0;
  while (at < message.size() && at < kStart.size() + 7 && message[at] >= '0' &&
         message[at] <= '9') {
    number = number * 10 + (message[at++] - '0');
  }
  const bool is_number = at > kStart.size();
  const bool ends = at < message.size() && (message[at] == ':' || message[at] == ' ');
  return is_number && ends ? std::optional(Rank{number}) : std::nullopt;
}

FirstFailure failure_from(const ControlEvent& event, int ranks) {
  FirstFailure failure;
  failure.rank = event.rank;
  failure.place = event.place;
  if (event.kind == ControlEvent::Kind::kLost) {
    failure.lost = true;
    failure.error = {
        Code::kUnavailable,
        fmt::format("rank {} (pid {} on {}) was lost", event.rank.value, event.pid, event.host),
        {}};
    return failure;
  }
  failure.error = event.error;
  failure.follows = event.error.code == Code::kAborted;
  const auto culprit = named_culprit(event.error.message);
  if (culprit && culprit->value < ranks) failure.rank = culprit;
  return failure;
}

}  // namespace

bool RankBook::add(const ControlEvent& event) {
  if (event.rank.value < 0 || event.rank.value >= size()) return false;
  RankEntry& rank = ranks_[static_cast<std::size_t>(event.rank.value)];
  rank.pid = event.pid;
  rank.host = event.host;
  switch (event.kind) {
    case ControlEvent::Kind::kGreeting:
      rank.greeted = true;
      return false;
    case ControlEvent::Kind::kFinished:
      rank.ended = true;
      rank.finished = event.end;
      return false;
    case ControlEvent::Kind::kFailure:
    case ControlEvent::Kind::kLost:
      rank.ended = true;
      break;
  }
  const bool is_first = !failure_.has_value();
  add_failure(failure_from(event, size()));
  return is_first;
}

void RankBook::add_failure(FirstFailure failure) {
  // A rank that follows another's failure may be heard before the one that it follows.
  if (!failure_ || (failure_->follows && !failure.follows)) failure_ = std::move(failure);
}

bool RankBook::all_greeted() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.greeted; });
}

bool RankBook::any_greeted() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.greeted; });
}

bool RankBook::all_ended() const {
  return std::all_of(ranks_.begin(), ranks_.end(), [](const auto& rank) { return rank.ended; });
}

bool RankBook::any_stopped() const {
  return std::any_of(ranks_.begin(), ranks_.end(),
                     [](const auto& rank) { return rank.finished == RankEnd::kStopped; });
}

bool RankBook::shares_one_process() const {
  if (ranks_.size() < 2 || !all_greeted()) return false;
  return std::all_of(ranks_.begin(), ranks_.end(), [this](const auto& rank) {
    return rank.pid == ranks_.front().pid && rank.host == ranks_.front().host;
  });
}

std::string RankBook::absent() const {
  std::string text;
  int named = 0;
  for (int rank = 0; rank < size(); ++rank) {
    if (ranks_[static_cast<std::size_t>(rank)].greeted) continue;
    if (++named > 8) return text + " and others";
    text += fmt::format("{}rank {}", text.empty() ? "" : ", ", rank);
  }
  return text;
}

}  // namespace quadrille::internal
