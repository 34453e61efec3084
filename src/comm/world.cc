// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/comm/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace quadrille {
namespace {

/// A vote as it travels: the fixed part, then the error's message.
struct VoteHead {
  std::int64_t value = 0;
  std::int32_t code = -1;  ///< Of the error; -1 for none.
  std::int32_t stop = 0;
};

std::string packed(const Vote& vote) {
  VoteHead head{vote.value, vote.error ? static_cast<std::int32_t>(vote.error->code) : -1,
                vote.stop ? 1 : 0};
  std::string bytes(reinterpret_cast<const char*>(&head), sizeof head);
  if (vote.error) bytes += vote.error->to_text();
  return bytes;
}

}  // namespace

Result<Agreement> World::agree(const Vote& vote) {
  CollectiveScope scope = whole().open("agreement");
  QD_ASSIGN_OR_RETURN(const auto votes, whole().gather_bytes(scope, packed(vote)));
  Agreement agreement;
  for (std::size_t r = 0; r < votes.size(); ++r) {
    VoteHead head;
    if (votes[r].size() < sizeof head) {
      return fail(Code::kCorrupt, fmt::format("rank {}'s vote has {} bytes", r, votes[r].size()));
    }
    std::memcpy(&head, votes[r].data(), sizeof head);
    agreement.stop = agreement.stop || head.stop != 0;
    agreement.least_value = r == 0 ? head.value : std::min(agreement.least_value, head.value);
    if (head.code < 0 || agreement.error) continue;
    agreement.culprit = Rank{static_cast<int>(r)};
    agreement.error = Error{static_cast<Code>(head.code),
                            fmt::format("rank {}: {}", r, votes[r].substr(sizeof head)),
                            {}};
  }
  return agreement;
}

}  // namespace quadrille
