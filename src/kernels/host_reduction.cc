// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_reduction.h"

#include <algorithm>
#include <numeric>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_reduction.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

/// sums[i] += column i of four rows.
HWY_INLINE void add_four_rows(const float* dy, std::int64_t columns, float* sums) {
  for_lanes(columns, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto first = hn::Add(hn::LoadU(d, dy + i), hn::LoadU(d, dy + columns + i));
    const auto second =
        hn::Add(hn::LoadU(d, dy + 2 * columns + i), hn::LoadU(d, dy + 3 * columns + i));
    hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Add(first, second)), d, sums + i);
  });
}

/// sums [columns] += the columns of `rows` rows.
void column_sums_block(const float* dy, std::int64_t rows, std::int64_t columns, float* sums) {
  std::int64_t row = 0;
  for (; row + 4 <= rows; row += 4) add_four_rows(dy + row * columns, columns, sums);
  for (; row < rows; ++row) {
    const float* source = dy + row * columns;
    for_lanes(columns, [=](auto d, std::int64_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::LoadU(d, source + i)), d, sums + i);
    });
  }
}

double sum_of_squares_block(const float* x, std::int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> narrow;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  auto even = hn::Zero(d);
  auto odd = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * width <= count; i += 2 * width) {
    const auto a = hn::PromoteTo(d, hn::LoadU(narrow, x + i));
    const auto b = hn::PromoteTo(d, hn::LoadU(narrow, x + i + width));
    even = hn::MulAdd(a, a, even);
    odd = hn::MulAdd(b, b, odd);
  }
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(even, odd)));
  for (; i < count; ++i) sum += static_cast<double>(x[i]) * static_cast<double>(x[i]);
  return sum;
}

std::int64_t count_nonfinite_block(const float* x, std::int64_t count) {
  std::int64_t nonfinite = 0;
  for_lanes(count, [x, &nonfinite](auto d, std::int64_t i) HWY_ATTR {
    const auto finite = hn::IsFinite(hn::LoadU(d, x + i));
    nonfinite += static_cast<std::int64_t>(hn::CountTrue(d, hn::Not(finite)));
  });
  return nonfinite;
}

void sum_in_order_block(const std::vector<const float*>& sources, float* target, std::int64_t first,
                        std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    auto sum = hn::LoadU(d, sources[0] + first + i);
    for (std::size_t s = 1; s < sources.size(); ++s) {
      sum = hn::Add(sum, hn::LoadU(d, sources[s] + first + i));
    }
    hn::StoreU(sum, d, target + first + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {
namespace {

// A block of a sum over a whole tensor: 256 KiB.
constexpr std::int64_t kSumBlock = 65536;

template <class T, class Block>
T sum_of_blocks(std::int64_t count, const Block& block) {
  std::vector<T> sums(static_cast<std::size_t>((count + kSumBlock - 1) / kSumBlock));
  parallel_blocks(count, kSumBlock, [&](std::int64_t first, std::int64_t size) {
    sums[static_cast<std::size_t>(first / kSumBlock)] = block(first, size);
  });
  return std::accumulate(sums.begin(), sums.end(), T{0});
}

}  // namespace

HWY_EXPORT(column_sums_block);
HWY_EXPORT(sum_of_squares_block);
HWY_EXPORT(count_nonfinite_block);
HWY_EXPORT(sum_in_order_block);

void host_add_column_sums(const float* dy, std::int64_t rows, std::int64_t columns, float* sums) {
  // Each block of rows has sums of its own: memory is read in order, and a sum of sums loses fewer
  // digits than one chain. At most 64 blocks, by extents alone.
  constexpr std::int64_t kLeastRows = 32;
  constexpr std::int64_t kMostBlocks = 64;
  const std::int64_t block = std::max(kLeastRows, (rows + kMostBlocks - 1) / kMostBlocks);
  const std::int64_t blocks = (rows + block - 1) / block;
  thread_local std::vector<float> scratch;  // [blocks, columns]
  scratch.resize(static_cast<std::size_t>(blocks * columns));
  float* partial = scratch.data();
  parallel_blocks(rows, block, [=](std::int64_t first, std::int64_t count) {
    float* own = partial + first / block * columns;
    std::fill_n(own, columns, 0.0F);
    HWY_DYNAMIC_DISPATCH(column_sums_block)(dy + first * columns, count, columns, own);
  });
  HWY_DYNAMIC_DISPATCH(column_sums_block)(partial, blocks, columns, sums);
}

double host_sum_of_squares(const float* x, std::int64_t count) {
  return sum_of_blocks<double>(count, [x](std::int64_t first, std::int64_t size) {
    return HWY_DYNAMIC_DISPATCH(sum_of_squares_block)(x + first, size);
  });
}

std::int64_t host_count_nonfinite(const float* x, std::int64_t count) {
  return sum_of_blocks<std::int64_t>(count, [x](std::int64_t first, std::int64_t size) {
    return HWY_DYNAMIC_DISPATCH(count_nonfinite_block)(x + first, size);
  });
}

void host_sum_in_order(const std::vector<const float*>& sources, float* target,
                       std::int64_t count) {
  parallel_blocks(count, kElementBlock, [&](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(sum_in_order_block)(sources, target, first, size);
  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
