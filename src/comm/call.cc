// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/call.h"

#include <fmt/format.h>

#include <algorithm>

namespace quadrille::internal {

void PostedCall::assign(const Call& call) {
  operation.assign(call.operation);
  bytes = call.bytes;
  place.assign(call.place);
  root = call.root;
}

std::string describe(const PostedCall& call) {
  return describe(Call{call.operation, call.bytes, call.place, call.root, 0});
}

std::string describe(const Call& call) {
  std::string text(call.operation);
  if (call.bytes > 0) text += fmt::format(" of {} bytes", call.bytes);
  if (call.root >= 0) text += fmt::format(" from root {}", call.root);
  if (!call.place.empty()) text += fmt::format(" at {}", call.place);
  return text;
}

std::string describe(std::span<const Rank> ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += std::to_string(ranks[i].value);
  }
  return text;
}

std::optional<Error> find_difference(std::span<const PostedCall> calls,
                                     std::span<const Rank> members) {
  const auto differs = [&](const PostedCall& call) { return !(call == calls.front()); };
  if (std::none_of(calls.begin(), calls.end(), differs)) return std::nullopt;
  // What most ranks call is taken as meant; between equals, what the lowest rank calls.
  std::size_t meant = 0;
  std::ptrdiff_t most = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto same = std::count(calls.begin(), calls.end(), calls[i]);
    if (same > most) {
      most = same;
      meant = i;
    }
  }
  std::string text;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i] == calls[meant]) continue;
    text += fmt::format("{}rank {} calls {}", text.empty() ? "" : ", ", members[i].value,
                        describe(calls[i]));
  }
  text += most > 1 ? " where the others call " + describe(calls[meant])
                   : fmt::format(" where rank {} calls {}", members[meant].value,
                                 describe(calls[meant]));
  return Error{Code::kInvalid, std::move(text), {}};
}

}  // namespace quadrille::internal
