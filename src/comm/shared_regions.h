// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which memory of this process its peers on the host have mapped, and where theirs is mapped here.
// A lease of a group makes one segment per member; each member maps all of them, and the names are
// taken away at once, so that a crash from then on leaves nothing behind.

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/direct_mover.h"
#include "comm/group.h"
#include "quadrille/memory/shared_segment.h"

namespace quadrille::internal {

/// One process's segments, over all of its groups.
class SharedRegions {
 public:
  SharedRegions(std::string run_id, Rank me)
      : run_id_(std::move(run_id)), me_(me), own_(std::make_shared<OwnRegions>()) {}

  [[nodiscard]] const std::string& run_id() const { return run_id_; }
  /// Where `memory` lies, if it is within a segment that all `readers` have mapped.
  [[nodiscard]] Location locate(const void* memory, Bytes bytes,
                                const std::vector<Rank>& readers) const;
  [[nodiscard]] void* address(Rank owner, const Location& location) const;

  /// A new segment of this process, not yet known to anybody.
  struct Made {
    std::int64_t number = 0;
    SharedSegment segment;
  };
  [[nodiscard]] Result<Made> make(Bytes bytes);
  /// Leases it from `pool`; from now on it is found, by `readers`, until the lease ends.
  [[nodiscard]] Result<Lease> publish(Made made, std::vector<Rank> readers, Pool& pool,
                                      const LeaseRequest& request);
  /// Maps segment `number` of a peer.
  [[nodiscard]] Result<void> map_peer(Rank owner, std::int64_t number);
  /// Unmaps all of a peer's segments but `live`.
  void keep_only(Rank owner, const std::vector<std::int64_t>& live);
  /// Numbers of this process's published segments.
  [[nodiscard]] std::vector<std::int64_t> live() const;

 private:
  struct Region {
    std::int64_t number = 0;
    std::uint64_t bytes = 0;
    std::vector<Rank> readers;
  };
  using OwnRegions = std::map<std::uintptr_t, Region>;  ///< By first address.

  std::string run_id_;
  Rank me_;
  std::int64_t made_ = 0;
  std::shared_ptr<OwnRegions> own_;  ///< Leases share it: each strikes itself out when it ends.
  std::map<std::pair<Rank, std::int64_t>, SharedSegment> peers_;
};

/// The processes of one group, all of one host.
class SharedReach final : public Reach {
 public:
  SharedReach(SharedRegions& regions, const Group& group)
      : regions_(regions), members_(group.members), me_(group.world_rank()) {}

  Location locate(const void* memory, Bytes bytes) const override {
    return regions_.locate(memory, bytes, members_);
  }
  void* address(int member, const Location& location) const override {
    return regions_.address(members_[static_cast<std::size_t>(member)], location);
  }
  /// Errors: kExhausted on every rank where one rank's /dev/shm is too small.
  Result<Lease> lease(Pool& pool, const LeaseRequest& request, const Exchange& exchange) override;

 private:
  struct Offer;
  [[nodiscard]] Result<void> map_peers(const std::vector<Offer>& offers);

  SharedRegions& regions_;
  std::vector<Rank> members_;
  Rank me_;
};

/// The memory in which the processes of a group meet, mapped by all of them, and their stages. It
/// bears a name of its own in the run. Collective over `exchange`.
class SharedPlace {
 public:
  [[nodiscard]] static Result<SharedPlace> make(const std::string& run_id, const std::string& name,
                                                const Group& group,
                                                const Reach::Exchange& exchange);
  [[nodiscard]] void* meeting() const { return segment_.bytes().data(); }
  [[nodiscard]] Bytes bytes_of_rank() const {
    return Bytes(static_cast<std::int64_t>(segment_.bytes().size()) / ranks_);
  }
  [[nodiscard]] std::byte* stages() const { return segment_.bytes().data() + stages_; }

 private:
  SharedPlace(SharedSegment segment, std::int64_t stages, int ranks)
      : segment_(std::move(segment)), stages_(stages), ranks_(ranks) {}
  SharedSegment segment_;
  std::int64_t stages_;
  int ranks_;
};

}  // namespace quadrille::internal
