// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/comm/communicator.h"

#include <fmt/format.h>

#include <cstring>

#include "quadrille/mesh/placement.h"

namespace quadrille {

RowSplits RowSplits::even(std::int64_t rows, Rank rank, int size) {
  RowSplits splits;
  const std::int64_t mine = shard_extent(rows, rank.value, size).length;
  for (int r = 0; r < size; ++r) {
    splits.send.push_back(shard_extent(rows, r, size).length);
    splits.receive.push_back(mine);
  }
  return splits;
}

Result<void> Communicator::sum(CollectiveScope& scope, std::span<double> values) {
  const std::string_view mine(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  QD_ASSIGN_OR_RETURN(const auto all, gather_bytes(scope, mine));
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].size() == values.size_bytes()) continue;
    return fail(
        Code::kInvalid,
        fmt::format("rank {} of the group sums {} values where rank {} sums {}, at {}", r,
                    all[r].size() / sizeof(double), rank().value, values.size(), scope.place()));
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    double total = 0;
    for (std::size_t r = 0; r < all.size(); ++r) {
      double value = 0;
      std::memcpy(&value, all[r].data() + i * sizeof(double), sizeof(double));
      total = r == 0 ? value : total + value;
    }
    values[i] = total;
  }
  return {};
}

}  // namespace quadrille
