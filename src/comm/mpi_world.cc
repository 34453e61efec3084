// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Ranks as processes that mpirun or srun started.

#include <unistd.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "comm/group.h"
#include "comm/host_name.h"
#include "comm/mpi_link.h"
#include "comm/mpi_mover.h"
#include "comm/recorded_communicator.h"
#include "comm/shared_regions.h"
#include "comm/staged_mover.h"
#include "quadrille/base/check.h"
#include "quadrille/comm/world.h"

namespace quadrille {
namespace internal {
namespace {

/// The processes of a group, as far as the link knows them.
class MpiPeers final : public Peers {
 public:
  MpiPeers(MpiLink& link, std::vector<Rank> members) : link_(link), members_(std::move(members)) {}
  std::optional<Error> lost(const Awaited& awaited) override {
    return link_.lost_among(members_, awaited.missing());
  }
  bool may_vanish() const override { return true; }
  std::optional<Error> broken() const override { return link_.broken(); }
  void give_up(const Error& error) override { link_.give_up(error); }

 private:
  MpiLink& link_;
  std::vector<Rank> members_;
};

/// What one group of this process is made of.
struct MpiGroup {
  std::unique_ptr<MpiPeers> peers;
  std::optional<SharedPlace> place;  ///< Where the group is inside this host.
  std::optional<Meeting> meeting;
  std::unique_ptr<RecordedCommunicator> communicator;
};

class MpiWorld final : public World {
 public:
  static Result<std::unique_ptr<MpiWorld>> create(MpiLink& link) {
    std::unique_ptr<MpiWorld> world(new MpiWorld(link));
    std::vector<Rank> everyone;
    for (int r = 0; r < link.size(); ++r) everyone.push_back(Rank{r});
    QD_ASSIGN_OR_RETURN(world->everyone_, make_group(everyone, *world, link.options()));
    world->everyone_.always_yield = link.exceeds_cores();
    QD_ASSIGN_OR_RETURN(world->whole_, world->communicator_of(world->everyone_));
    return world;
  }

  Rank rank() const override { return link_.rank(); }
  int size() const override { return link_.size(); }
  Rank local_rank() const override { return link_.local_rank(); }
  int ranks_on_host() const override { return link_.ranks_on_host(); }
  std::string host() const override { return host_; }
  std::string_view backend() const override { return "mpi"; }
  Bytes staging() const override {
    Bytes total = link_.staging_bytes();
    for (const auto& [members, made] : groups_) {
      total += made.communicator->bounce_bytes();
      if (made.place) total += made.place->bytes_of_rank();
    }
    return total;
  }
  Communicator& whole() override { return *whole_; }
  [[nodiscard]] const Group& everyone() const { return everyone_; }

  Result<Communicator*> group(std::span<const Rank> members) override {
    ++groups_asked_;  // on every rank alike, whatever comes of it
    QD_RETURN_IF_ERROR(agree_on_group(*this, members));
    QD_ASSIGN_OR_RETURN(Group group, make_group(members, *this, link_.options()));
    return communicator_of(group);
  }

 private:
  explicit MpiWorld(MpiLink& link)
      : link_(link), host_(host_name()), regions_(link.run_id(), link.rank()) {}

  Result<Communicator*> communicator_of(Group group) {
    group.always_yield = link_.exceeds_cores();
    MpiGroup& made = groups_[group.members];
    if (made.communicator != nullptr) return made.communicator.get();
    std::unique_ptr<Mover> mover;
    if (group.size() > 1) {
      mover = std::make_unique<MpiMover>(group, link_, groups_asked_);
      if (link_.options().shared_memory && link_.share_host(group.members)) {
        QD_ASSIGN_OR_RETURN(mover, directly(group, std::move(mover), made));
      }
    }
    made.communicator = std::make_unique<RecordedCommunicator>(group, std::move(mover));
    return made.communicator.get();
  }

  /// A mover in shared memory, and `messages` for what lies elsewhere.
  Result<std::unique_ptr<Mover>> directly(const Group& group, std::unique_ptr<Mover> messages,
                                          MpiGroup& made) {
    const Call call{"share", 0, "making a group", -1, 0};
    const std::string name = "group-" + std::to_string(groups_asked_) + "-of-rank-" +
                             std::to_string(group.members.front().value);
    QD_ASSIGN_OR_RETURN(made.place,
                        SharedPlace::make(link_.run_id(), name, group, [&](std::string_view mine) {
                          return messages->bytes(call, mine);
                        }));
    made.peers = std::make_unique<MpiPeers>(link_, group.members);
    made.meeting.emplace(made.place->meeting(), group, *made.peers);
    auto staged = std::make_unique<StagedMover>(group, *made.meeting, made.place->stages(),
                                                std::move(messages));
    return std::make_unique<DirectMover>(group, made.place->meeting(), *made.meeting,
                                         std::make_unique<SharedReach>(regions_, group),
                                         std::move(staged));
  }

  MpiLink& link_;
  std::string host_;
  SharedRegions regions_;
  Group everyone_;
  int groups_asked_ = 1;  ///< The whole world is the first.
  std::map<std::vector<Rank>, MpiGroup> groups_;
  Communicator* whole_ = nullptr;
};

}  // namespace
}  // namespace internal

bool mpi_is_built() { return true; }

Result<void> run_mpi(const WorldOptions& options, const RankBody& body) {
  QD_ASSIGN_OR_RETURN(auto link, internal::MpiLink::start(options));
  set_check_rank(link->rank().value);
  FlightTable* table = options.recorder;
  if (table != nullptr) table->set_process(link->rank(), getpid());
  auto world = internal::MpiWorld::create(*link);
  auto result = world ? body(**world) : tl::unexpected<Error>(world.error());
  // The cause first: a peer that finds this rank gone must know why.
  if (!result) link->fail_with(result.error());
  if (table != nullptr) table->set_returned(link->rank());
  if (result) result = link->finish((*world)->everyone());
  // After a failure MPI may still hold addresses inside the link until the process ends.
  if (!result) (void)link.release();
  return result;
}

}  // namespace quadrille
