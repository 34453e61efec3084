// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The row blocks of an all-to-all, and whether all ranks mean the same ones.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/comm/communicator.h"

namespace quadrille::internal {

/// The call's own tensors fit its splits: one count for each of `size` ranks, none negative, their
/// sums the tensors' rows, rows of one type and size. Errors: kInvalid.
[[nodiscard]] Result<void> check_splits(const TensorView& source, const TensorView& target,
                                        const RowSplits& splits, int size);

/// Splits as they travel.
[[nodiscard]] std::string packed(const RowSplits& splits);

/// Every rank's splits, by rank. What one sends to another, that one must receive. Errors: kInvalid
/// naming the first two (of `members`, world ranks) that differ: the same on every rank.
[[nodiscard]] Result<std::vector<RowSplits>> agree_on_splits(const std::vector<std::string>& all,
                                                             std::span<const Rank> members);

/// Block `index` of a tensor that is cut into blocks of `rows`.
[[nodiscard]] TensorView block_of(const TensorView& tensor, const std::vector<std::int64_t>& rows,
                                  int index);

}  // namespace quadrille::internal
