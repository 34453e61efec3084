// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/group.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <bit>
#include <string>

#include "comm/call.h"
#include "quadrille/base/hash.h"

namespace quadrille::internal {
namespace {

std::uint64_t hash_of(std::span<const Rank> members) {
  std::vector<std::int32_t> numbers;  // not the structs: their layout is the compiler's business
  for (const Rank rank : members) numbers.push_back(rank.value);
  return hash64(std::as_bytes(std::span<const std::int32_t>(numbers)));
}

std::string text_of(std::span<const Rank> members) {
  std::string text;
  for (const Rank rank : members) text += fmt::format("{} ", rank.value);
  return text;
}

}  // namespace

Result<Group> make_group(std::span<const Rank> members, const World& world,
                         const WorldOptions& options) {
  Group group;
  group.members.assign(members.begin(), members.end());
  const auto mine = std::find(group.members.begin(), group.members.end(), world.rank());
  if (mine == group.members.end()) {
    return fail(Code::kInvalid, fmt::format("rank {} asks for a group that it does not belong to",
                                            world.rank().value));
  }
  const auto not_ascending =
      std::adjacent_find(members.begin(), members.end(), std::greater_equal<>());
  if (not_ascending != members.end() || members.front() < Rank{0} ||
      members.back() >= Rank{world.size()}) {
    return fail(Code::kInvalid, fmt::format("a group's ranks must ascend within 0 ... {}, not {}",
                                            world.size() - 1, text_of(members)));
  }
  group.me = static_cast<int>(mine - group.members.begin());
  group.id = hash_of(members);
  group.options = &options;
  group.always_yield = exceeds_cores(world.ranks_on_host());
  return group;
}

Result<void> agree_on_group(World& world, std::span<const Rank> members) {
  CollectiveScope scope = world.whole().open("making a group");
  const std::string mine = text_of(members);
  QD_ASSIGN_OR_RETURN(const auto all, world.whole().gather_bytes(scope, mine));
  for (const Rank member : members) {
    if (member < Rank{0} || member >= Rank{world.size()}) continue;  // make_group refuses it
    const std::string& theirs = all[static_cast<std::size_t>(member.value)];
    if (theirs == mine) continue;
    return fail(Code::kInvalid, fmt::format("rank {} makes a group of ranks {}where rank {} makes "
                                            "one of ranks {}",
                                            world.rank().value, mine, member.value, theirs));
  }
  return {};
}

CoreMask own_cores() {
  static_assert(sizeof(CoreMask) == sizeof(cpu_set_t));
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof cores, &cores) != 0) return {};
  return std::bit_cast<CoreMask>(cores);
}

bool exceeds_cores(int ranks) {
  int cores = 0;
  for (const std::uint64_t word : own_cores()) cores += std::popcount(word);
  return ranks > cores;
}

}  // namespace quadrille::internal
