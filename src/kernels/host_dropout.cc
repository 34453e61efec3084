// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Dropout with whole vectors of Philox counters.

#include <algorithm>
#include <cmath>

#include "kernels/host_pointwise.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_dropout.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_lanes-inl.h"
#include "kernels/host_parallel.h"
#include "kernels/host_philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

using Words = hn::ScalableTag<std::uint32_t>;

constexpr std::int64_t kDrawBlock = 1024;

/// Elements [begin, begin + count) of the view, count <= kDrawBlock. An element is kept where its
/// 24-bit draw reaches `threshold` = ceil(probability * 2^24), which is exactly uniform >=
/// probability.
HWY_INLINE void dropout_piece(const HostDropout& arguments, std::int64_t begin, std::int64_t count,
                              std::int32_t threshold) {
  const Words words;
  const auto per_call = 4 * static_cast<std::int64_t>(hn::Lanes(words));
  HWY_ALIGN std::uint32_t bits[kDrawBlock + 2 * 4 * hn::MaxLanes(Words())];
  const std::uint64_t index = arguments.mask.first + static_cast<std::uint64_t>(begin);
  const auto skip = static_cast<std::int64_t>(index % 4);
  for (std::int64_t i = 0; i < skip + count; i += per_call) {
    philox_words(words, arguments.mask.stream, index / 4 + static_cast<std::uint64_t>(i / 4),
                 bits + i);
  }
  const float keep_scale = 1.0F / (1.0F - arguments.mask.probability);
  const float* x = arguments.x + begin;
  const float* residual = arguments.residual == nullptr ? nullptr : arguments.residual + begin;
  float* out = arguments.out + begin;
  const std::uint32_t* draws = bits + skip;
  for_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    // Draws and threshold are at most 2^24: signed comparison, which every target has, serves.
    const hn::RebindToUnsigned<decltype(d)> unsigned_tag;
    const hn::RebindToSigned<decltype(d)> signed_tag;
    const auto draw = hn::ShiftRight<8>(hn::LoadU(unsigned_tag, draws + i));
    const auto drop =
        hn::RebindMask(d, hn::Lt(hn::BitCast(signed_tag, draw), hn::Set(signed_tag, threshold)));
    const auto kept =
        hn::IfThenZeroElse(drop, hn::Mul(hn::LoadU(d, x + i), hn::Set(d, keep_scale)));
    hn::StoreU(residual == nullptr ? kept : hn::Add(hn::LoadU(d, residual + i), kept), d, out + i);
  });
}

void dropout_block(const HostDropout& arguments, std::int64_t first, std::int64_t count) {
  const auto threshold = static_cast<std::int32_t>(
      std::ceil(static_cast<double>(arguments.mask.probability) * 0x1p24));
  for (std::int64_t i = 0; i < count; i += kDrawBlock) {
    dropout_piece(arguments, first + i, std::min(kDrawBlock, count - i), threshold);
  }
}

void plain_sum_block(const HostDropout& arguments, std::int64_t first, std::int64_t count) {
  const float* x = arguments.x + first;
  const float* residual = arguments.residual == nullptr ? nullptr : arguments.residual + first;
  float* out = arguments.out + first;
  for_lanes(count, [=](auto d, std::int64_t i) HWY_ATTR {
    const auto value = hn::LoadU(d, x + i);
    hn::StoreU(residual == nullptr ? value : hn::Add(hn::LoadU(d, residual + i), value), d,
               out + i);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {

HWY_EXPORT(dropout_block);
HWY_EXPORT(plain_sum_block);

void host_dropout(const HostDropout& arguments) {
  const bool drops = arguments.mask.probability > 0;
  parallel_blocks(arguments.count, kElementBlock, [&](std::int64_t first, std::int64_t size) {
    if (drops) {
      HWY_DYNAMIC_DISPATCH(dropout_block)(arguments, first, size);
    } else {
      HWY_DYNAMIC_DISPATCH(plain_sum_block)(arguments, first, size);
    }
  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
