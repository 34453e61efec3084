// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/row_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

Result<void> check_side(std::string_view side, const TensorView& tensor,
                        const std::vector<std::int64_t>& rows, int size) {
  if (tensor.shape().dimensions() == 0) {
    return fail(Code::kInvalid, fmt::format("all_to_all: the {} has no rows", side));
  }
  if (static_cast<int>(rows.size()) != size ||
      std::any_of(rows.begin(), rows.end(), [](std::int64_t count) { return count < 0; })) {
    return fail(Code::kInvalid,
                fmt::format("all_to_all: the {} is cut for {} ranks of a group of {}", side,
                            rows.size(), size));
  }
  const std::int64_t sum = std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  if (sum == tensor.shape()[0]) return {};
  return fail(Code::kInvalid, fmt::format("all_to_all: the {} has {} rows, its blocks {}", side,
                                          tensor.shape()[0], sum));
}

Shape row_shape(const TensorView& tensor) { return tensor.shape().with_extent(0, 1); }

}  // namespace

Result<void> check_splits(const TensorView& source, const TensorView& target,
                          const RowSplits& splits, int size) {
  QD_RETURN_IF_ERROR(check_side("source", source, splits.send, size));
  QD_RETURN_IF_ERROR(check_side("target", target, splits.receive, size));
  if (source.dtype() == target.dtype() && row_shape(source) == row_shape(target)) return {};
  return fail(Code::kInvalid,
              fmt::format("all_to_all: rows are {} {} in the source and {} {} in the target",
                          kDTypeText.text(source.dtype()), row_shape(source).to_text(),
                          kDTypeText.text(target.dtype()), row_shape(target).to_text()));
}

std::string packed(const RowSplits& splits) {
  std::vector<std::int64_t> counts = splits.send;
  counts.insert(counts.end(), splits.receive.begin(), splits.receive.end());
  return std::string(reinterpret_cast<const char*>(counts.data()), counts.size() * 8);
}

Result<std::vector<RowSplits>> agree_on_splits(const std::vector<std::string>& all,
                                               std::span<const Rank> members) {
  const std::size_t size = members.size();
  std::vector<RowSplits> splits(size);
  for (std::size_t r = 0; r < size; ++r) {
    QD_CHECK(all[r].size() == 16 * size);  // check_splits has seen to it on every rank
    splits[r].send.resize(size);
    splits[r].receive.resize(size);
    std::memcpy(splits[r].send.data(), all[r].data(), 8 * size);
    std::memcpy(splits[r].receive.data(), all[r].data() + 8 * size, 8 * size);
  }
  for (std::size_t from = 0; from < size; ++from) {
    for (std::size_t to = 0; to < size; ++to) {
      const std::int64_t sent = splits[from].send[to];
      const std::int64_t received = splits[to].receive[from];
      if (sent == received) continue;
      return fail(Code::kInvalid,
                  fmt::format("all_to_all: rank {} sends {} rows to rank {}, which receives {}",
                              members[from].value, sent, members[to].value, received));
    }
  }
  return splits;
}

TensorView block_of(const TensorView& tensor, const std::vector<std::int64_t>& rows, int index) {
  const std::int64_t first = std::accumulate(rows.begin(), rows.begin() + index, std::int64_t{0});
  return tensor.rows(first, rows[static_cast<std::size_t>(index)]);
}

}  // namespace quadrille::internal
