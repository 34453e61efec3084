// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Ranks as threads of this process: the reference backend. They read each other's tensors directly.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "comm/group.h"
#include "comm/host_name.h"
#include "comm/recorded_communicator.h"
#include "comm/thread_hub.h"
#include "quadrille/base/check.h"
#include "quadrille/comm/world.h"

namespace quadrille {
namespace internal {
namespace {

/// What one group of one rank is made of.
struct ThreadGroup {
  std::optional<Meeting> meeting;
  std::unique_ptr<RecordedCommunicator> communicator;
};

class ThreadWorld final : public World {
 public:
  ThreadWorld(ThreadHub& hub, Rank rank) : hub_(hub), rank_(rank), host_(host_name()) {
    std::vector<Rank> everyone;
    for (int r = 0; r < hub.ranks(); ++r) everyone.push_back(Rank{r});
    auto group = make_group(everyone, *this, hub.options());
    QD_CHECK(group.has_value());
    whole_ = &communicator_of(*std::move(group));
  }

  Rank rank() const override { return rank_; }
  int size() const override { return hub_.ranks(); }
  Rank local_rank() const override { return rank_; }
  int ranks_on_host() const override { return hub_.ranks(); }
  std::string host() const override { return host_; }
  std::string_view backend() const override { return "threads"; }
  Bytes staging() const override {
    Bytes total;
    for (const auto& [members, made] : groups_) total += made.communicator->bounce_bytes();
    return total;
  }
  Communicator& whole() override { return *whole_; }

  Result<Communicator*> group(std::span<const Rank> members) override {
    QD_RETURN_IF_ERROR(agree_on_group(*this, members));
    QD_ASSIGN_OR_RETURN(Group group, make_group(members, *this, hub_.options()));
    return &communicator_of(std::move(group));
  }

 private:
  Communicator& communicator_of(Group group) {
    ThreadGroup& made = groups_[group.members];
    if (made.communicator == nullptr) {
      std::unique_ptr<Mover> mover;
      if (group.size() > 1) {
        void* const memory = hub_.meeting(group.members);
        made.meeting.emplace(memory, group, hub_);
        mover = std::make_unique<DirectMover>(group, memory, *made.meeting,
                                              std::make_unique<ThreadReach>(), nullptr);
      }
      made.communicator =
          std::make_unique<RecordedCommunicator>(std::move(group), std::move(mover));
    }
    return *made.communicator;
  }

  ThreadHub& hub_;
  Rank rank_;
  std::string host_;
  std::map<std::vector<Rank>, ThreadGroup> groups_;
  Communicator* whole_ = nullptr;
};

void run_rank(ThreadHub& hub, Rank rank, const RankBody& body, Result<void>& result) {
  set_check_rank(rank.value);
  FlightTable* table = hub.options().recorder;
  if (table != nullptr) table->set_process(rank, getpid());
  ThreadWorld world(hub, rank);
  result = body(world);
  // The cause first: a peer that sees the rank gone must find out why.
  hub.set_returned(rank, result);
  if (table != nullptr) table->set_returned(rank);
}

}  // namespace
}  // namespace internal

Result<void> run_threads(int ranks, const WorldOptions& options, const RankBody& body) {
  if (ranks < 1) return fail(Code::kInvalid, fmt::format("cannot run {} ranks", ranks));
  internal::ThreadHub hub(ranks, options);
  std::vector<Result<void>> results(static_cast<std::size_t>(ranks));
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < ranks; ++r) {
      Result<void>& result = results[static_cast<std::size_t>(r)];
      threads.emplace_back(
          [&hub, r, &body, &result] { internal::run_rank(hub, Rank{r}, body, result); });
    }
  }
  // kAborted is what a rank returns because a peer failed or a stop was asked for.
  for (const auto& result : results) {
    if (!result && result.error().code != Code::kAborted) return result;
  }
  for (const auto& result : results) {
    if (!result) return result;
  }
  return {};
}

}  // namespace quadrille
