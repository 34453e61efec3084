// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/shared_regions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "comm/staged_mover.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

constexpr std::string_view kWayOut =
    "give /dev/shm more room (containers: --shm-size) or set communication.shared_memory to false";

std::string lease_name(Rank owner, std::int64_t number) {
  return fmt::format("lease-{}-of-rank-{}", number, owner.value);
}

/// Other ranks' segments of one lease, and one rank's of several leases, are gone through together.
int color_of(Rank owner, std::int64_t number) {
  constexpr std::int64_t kColors = 65536;
  return static_cast<int>((61 * number + owner.value) % kColors);
}

/// A status as it travels: nothing where all is well, else a digit and the message.
std::string packed(const Result<void>& status) {
  if (status) return {};
  return static_cast<char>('0' + static_cast<int>(status.error().code)) + status.error().message;
}

/// The first status that is not well, as an error of all.
Result<void> first_error(const std::vector<std::string>& statuses,
                         const std::vector<Rank>& members) {
  for (std::size_t r = 0; r < statuses.size(); ++r) {
    const std::string& status = statuses[r];
    if (status.empty()) continue;
    return fail(static_cast<Code>(status.front() - '0'),
                fmt::format("rank {}: {}; {}", members[r].value, status.substr(1), kWayOut));
  }
  return {};
}

}  // namespace

Location SharedRegions::locate(const void* memory, Bytes bytes,
                               const std::vector<Rank>& readers) const {
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  const auto after = own_->upper_bound(start);
  if (after == own_->begin()) return {};
  const auto& [first, region] = *std::prev(after);
  const std::uint64_t offset = start - first;
  if (offset >= region.bytes || static_cast<std::uint64_t>(bytes.count()) > region.bytes - offset ||
      !std::includes(region.readers.begin(), region.readers.end(), readers.begin(),
                     readers.end())) {
    return {};
  }
  return Location{region.number, offset};
}

void* SharedRegions::address(Rank owner, const Location& location) const {
  if (owner == me_) {
    for (const auto& [first, region] : *own_) {
      if (region.number == location.region) {
        return reinterpret_cast<void*>(first + location.offset);
      }
    }
  }
  const auto found = peers_.find({owner, location.region});
  QD_CHECK(found != peers_.end());
  return found->second.bytes().data() + location.offset;
}

Result<SharedRegions::Made> SharedRegions::make(Bytes bytes) {
  const std::int64_t number = ++made_;
  const std::string what = lease_name(me_, number);
  // What an earlier attempt of the same run left behind, if any.
  static_cast<void>(remove_if_unused(segment_name(run_id_, what)));
  QD_ASSIGN_OR_RETURN(SharedSegment segment,
                      SharedSegment::create(run_id_, what, bytes, color_of(me_, number)));
  return Made{number, std::move(segment)};
}

Result<Lease> SharedRegions::publish(Made made, std::vector<Rank> readers, Pool& pool,
                                     const LeaseRequest& request) {
  std::byte* const data = made.segment.bytes().data();
  const auto first = reinterpret_cast<std::uintptr_t>(data);
  // Shared, since a std::function must be copyable; the lease holds the only copy.
  auto owner = std::make_shared<SharedSegment>(std::move(made.segment));
  auto lease = pool.adopt({data, request.bytes, [own = own_, first, owner] { own->erase(first); }},
                          request.tag, request.what);
  if (lease) {
    const auto bytes = static_cast<std::uint64_t>(request.bytes.count());
    (*own_)[first] = Region{made.number, bytes, std::move(readers)};
  }
  return lease;
}

Result<void> SharedRegions::map_peer(Rank owner, std::int64_t number) {
  QD_ASSIGN_OR_RETURN(SharedSegment segment, SharedSegment::open(run_id_, lease_name(owner, number),
                                                                 color_of(owner, number)));
  peers_.emplace(std::pair(owner, number), std::move(segment));
  return {};
}

void SharedRegions::keep_only(Rank owner, const std::vector<std::int64_t>& live) {
  std::erase_if(peers_, [&](const auto& entry) {
    const auto& [peer, number] = entry.first;
    return peer == owner && std::find(live.begin(), live.end(), number) == live.end();
  });
}

std::vector<std::int64_t> SharedRegions::live() const {
  std::vector<std::int64_t> numbers;
  for (const auto& [first, region] : *own_) numbers.push_back(region.number);
  return numbers;
}

/// What a rank brings to a lease: its new segment's number, those that it still uses, or why it
/// could not make one.
struct SharedReach::Offer {
  std::int64_t number = 0;  ///< 0 for none.
  std::vector<std::int64_t> live;
  std::string status;

  [[nodiscard]] std::string packed() const {
    std::vector<std::int64_t> numbers = {number, static_cast<std::int64_t>(live.size())};
    numbers.insert(numbers.end(), live.begin(), live.end());
    return std::string(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 8) + status;
  }
  static Result<Offer> unpacked(const std::string& text) {
    const auto number_at = [&](std::size_t index) {
      std::int64_t value = -1;
      if (text.size() >= (index + 1) * 8) std::memcpy(&value, text.data() + index * 8, 8);
      return value;
    };
    Offer offer;
    offer.number = number_at(0);
    const std::int64_t count = number_at(1);
    if (count < 0 || text.size() / 8 < static_cast<std::size_t>(count) + 2) {
      return fail(Code::kCorrupt, "a peer's part of a lease is cut");
    }
    for (std::int64_t i = 0; i < count; ++i) {
      offer.live.push_back(number_at(static_cast<std::size_t>(i) + 2));
    }
    offer.status = text.substr((static_cast<std::size_t>(count) + 2) * 8);
    return offer;
  }
};

Result<void> SharedReach::map_peers(const std::vector<Offer>& offers) {
  for (std::size_t r = 0; r < offers.size(); ++r) {
    if (members_[r] == me_ || offers[r].number == 0) continue;
    QD_RETURN_IF_ERROR(regions_.map_peer(members_[r], offers[r].number));
  }
  return {};
}

Result<Lease> SharedReach::lease(Pool& pool, const LeaseRequest& request,
                                 const Exchange& exchange) {
  Offer mine;
  mine.live = regions_.live();
  std::optional<SharedRegions::Made> made;
  if (request.bytes > Bytes(0) && pool.device().host_addressable()) {
    auto segment = regions_.make(request.bytes);
    if (segment) {
      made = std::move(*segment);
      mine.number = made->number;
    } else {
      mine.status =
          packed(fail(with_context(std::move(segment).error(), std::string(request.what))));
    }
  }
  QD_ASSIGN_OR_RETURN(const auto texts, exchange(mine.packed()));
  std::vector<Offer> offers;
  std::vector<std::string> statuses;
  for (std::size_t r = 0; r < texts.size(); ++r) {
    QD_ASSIGN_OR_RETURN(Offer offer, Offer::unpacked(texts[r]));
    if (members_[r] != me_) regions_.keep_only(members_[r], offer.live);
    statuses.push_back(offer.status);
    offers.push_back(std::move(offer));
  }
  auto well = first_error(statuses, members_);
  if (well) {
    auto opened = exchange(packed(map_peers(offers)));
    well = opened ? first_error(*opened, members_) : tl::unexpected<Error>(opened.error());
  }
  if (made) made->segment.unlink();
  QD_RETURN_IF_ERROR(well);
  if (!made) return pool.lease(request.bytes, request.tag, request.what);
  return regions_.publish(*std::move(made), members_, pool, request);
}

Result<SharedPlace> SharedPlace::make(const std::string& run_id, const std::string& name,
                                      const Group& group, const Reach::Exchange& exchange) {
  constexpr std::int64_t kPage = 4096;
  const std::int64_t stages =
      (DirectMover::memory_bytes(group.size()).count() + kPage - 1) / kPage * kPage;
  std::optional<SharedSegment> segment;
  Result<void> status;
  const auto keep = [&](Result<SharedSegment> made) {
    if (made) {
      segment = std::move(*made);
    } else {
      status = fail(std::move(made).error());
    }
  };
  if (group.me == 0) {
    static_cast<void>(remove_if_unused(segment_name(run_id, name)));
    keep(SharedSegment::create(run_id, name,
                               Bytes(stages) + StagedMover::memory_bytes(group.size())));
    if (segment) DirectMover::prepare(segment->bytes().data(), group.size());
  }
  QD_ASSIGN_OR_RETURN(const auto made, exchange(packed(status)));
  QD_RETURN_IF_ERROR(first_error(made, group.members));
  if (group.me != 0) keep(SharedSegment::open(run_id, name));
  auto opened = exchange(packed(status));
  if (group.me == 0) segment->unlink();
  if (!opened) return fail(std::move(opened).error());
  QD_RETURN_IF_ERROR(first_error(*opened, group.members));
  return SharedPlace(*std::move(segment), stages, group.size());
}

}  // namespace quadrille::internal
