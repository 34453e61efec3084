// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Ranks as processes that mpirun or srun started.

#include <unistd.h>

#include <map>
#include <utility>

#include "comm/group.h"
#include "comm/host_name.h"
#include "comm/mpi_communicator.h"
#include "comm/mpi_link.h"
#include "quadrille/base/check.h"
#include "quadrille/comm/world.h"

namespace quadrille {
namespace internal {
namespace {

class MpiWorld final : public World {
 public:
  explicit MpiWorld(MpiLink& link) : link_(link), host_(host_name()) {
    std::vector<Rank> everyone;
    for (int r = 0; r < link.size(); ++r) everyone.push_back(Rank{r});
    auto group = make_group(everyone, *this, link.options());
    QD_CHECK(group.has_value());
    everyone_ = *group;
    whole_ = &communicator_of(*std::move(group));
  }

  Rank rank() const override { return link_.rank(); }
  int size() const override { return link_.size(); }
  Rank local_rank() const override { return link_.local_rank(); }
  int ranks_on_host() const override { return link_.ranks_on_host(); }
  std::string host() const override { return host_; }
  std::string_view backend() const override { return "mpi"; }
  Bytes staging() const override {
    Bytes total = link_.staging_bytes();
    for (const auto& [members, communicator] : communicators_) {
      total += communicator->bounce_bytes();
    }
    return total;
  }
  Communicator& whole() override { return *whole_; }
  [[nodiscard]] const Group& everyone() const { return everyone_; }

  Result<Communicator*> group(std::span<const Rank> members) override {
    ++groups_asked_;  // on every rank alike, whatever comes of it
    QD_RETURN_IF_ERROR(agree_on_group(*this, members));
    QD_ASSIGN_OR_RETURN(Group group, make_group(members, *this, link_.options()));
    return &communicator_of(std::move(group));
  }

 private:
  Communicator& communicator_of(Group group) {
    std::unique_ptr<MpiCommunicator>& found = communicators_[group.members];
    if (found == nullptr) {
      found = std::make_unique<MpiCommunicator>(std::move(group), link_, groups_asked_);
    }
    return *found;
  }

  MpiLink& link_;
  std::string host_;
  Group everyone_;
  int groups_asked_ = 1;  ///< The whole world is the first.
  std::map<std::vector<Rank>, std::unique_ptr<MpiCommunicator>> communicators_;
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
  internal::MpiWorld world(*link);
  auto result = body(world);
  // The cause first: a peer that finds this rank gone must know why.
  if (!result) link->fail_with(result.error());
  if (table != nullptr) table->set_returned(link->rank());
  if (result) result = link->finish(world.everyone());
  // After a failure MPI may still hold addresses inside the link until the process ends.
  if (!result) (void)link.release();
  return result;
}

}  // namespace quadrille
