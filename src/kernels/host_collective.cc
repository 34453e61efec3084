// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "kernels/host_collective.h"

#include <hwy/cache_control.h>

#include <algorithm>
#include <array>
#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/host_collective.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include "kernels/host_bf16-inl.h"
#include "kernels/host_parallel.h"

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const float* from) {
  return hn::LoadU(d, from);
}
template <class D>
HWY_INLINE void store(D d, hn::Vec<D> value, float* to) {
  hn::StoreU(value, d, to);
}

template <class D>
HWY_INLINE hn::Vec<D> load(D d, const BFloat16* from) {
  return load_bf16(d, reinterpret_cast<const std::uint16_t*>(from));
}
template <class D>
HWY_INLINE void store(D d, hn::Vec<D> value, BFloat16* to) {
  store_bf16(d, value, reinterpret_cast<std::uint16_t*>(to));
}

/// N buffers whose addresses stay in registers.
template <class T, std::size_t N>
HWY_INLINE void sum_fixed(const std::array<T*, N> buffers, int target, std::int64_t count) {
  const auto sum_at = [&](auto d, std::int64_t i) HWY_ATTR {
    auto sum = load(d, buffers[0] + i);
    for (std::size_t b = 1; b < N; ++b) sum = hn::Add(sum, load(d, buffers[b] + i));
    return sum;
  };
  if (target != kEveryBuffer) {
    T* const only = buffers[static_cast<std::size_t>(target)];
    for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR { store(d, sum_at(d, i), only + i); });
    return;
  }
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    const auto sum = sum_at(d, i);
    for (std::size_t b = 0; b < N; ++b) store(d, sum, buffers[b] + i);
  });
}

template <class T>
HWY_INLINE void sum_any(std::span<T* const> buffers, int target, std::int64_t first,
                        std::int64_t count) {
  for_lanes(count, [&](auto d, std::int64_t i) HWY_ATTR {
    auto sum = load(d, buffers[0] + first + i);
    for (std::size_t b = 1; b < buffers.size(); ++b) {
      sum = hn::Add(sum, load(d, buffers[b] + first + i));
    }
    if (target != kEveryBuffer) {
      return store(d, sum, buffers[static_cast<std::size_t>(target)] + first + i);
    }
    for (T* buffer : buffers) store(d, sum, buffer + first + i);
  });
}

template <class T>
HWY_INLINE void sum_buffers(std::span<T* const> buffers, int target, std::int64_t first,
                            std::int64_t count) {
  const auto at = [&](std::size_t b) { return buffers[b] + first; };
  switch (buffers.size()) {
    case 2:
      return sum_fixed(std::array{at(0), at(1)}, target, count);
    case 3:
      return sum_fixed(std::array{at(0), at(1), at(2)}, target, count);
    case 4:
      return sum_fixed(std::array{at(0), at(1), at(2), at(3)}, target, count);
    default:
      return sum_any(buffers, target, first, count);
  }
}

void sum_f32_block(std::span<float* const> buffers, int target, std::int64_t first,
                   std::int64_t count) {
  sum_buffers(buffers, target, first, count);
}
void sum_bf16_block(std::span<BFloat16* const> buffers, int target, std::int64_t first,
                    std::int64_t count) {
  sum_buffers(buffers, target, first, count);
}

void copy_streaming_block(const std::uint8_t* source, std::uint8_t* target, std::int64_t count) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  const auto head = static_cast<std::int64_t>((~reinterpret_cast<std::uintptr_t>(target) + 1U) %
                                              static_cast<std::uintptr_t>(width));
  std::int64_t i = std::min(head, count);
  std::memcpy(target, source, static_cast<std::size_t>(i));
  for (; i + width <= count; i += width) hn::Stream(hn::LoadU(d, source + i), d, target + i);
  std::memcpy(target + i, source + i, static_cast<std::size_t>(count - i));
  hwy::FlushStream();
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {
namespace {

// From here on a copy leaves no more than half of it in a usual last-level cache's share of a core.
constexpr std::int64_t kPastCaches = 8 << 20;
constexpr std::int64_t kCopyBlock = 1 << 20;

}  // namespace

HWY_EXPORT(sum_f32_block);
HWY_EXPORT(sum_bf16_block);
HWY_EXPORT(copy_streaming_block);

void host_sum_buffers(std::span<float* const> buffers, int target, std::int64_t count) {
  parallel_blocks(count, 2 * kElementBlock, [=](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(sum_f32_block)(buffers, target, first, size);
  });
}

void host_sum_buffers(std::span<BFloat16* const> buffers, int target, std::int64_t count) {
  parallel_blocks(count, 2 * kElementBlock, [=](std::int64_t first, std::int64_t size) {
    HWY_DYNAMIC_DISPATCH(sum_bf16_block)(buffers, target, first, size);
  });
}

void host_copy_past_caches(const std::byte* source, std::byte* target, std::int64_t bytes) {
  const auto* from = reinterpret_cast<const std::uint8_t*>(source);
  auto* to = reinterpret_cast<std::uint8_t*>(target);
  const bool stream = bytes >= kPastCaches;
  parallel_blocks(bytes, kCopyBlock, [=](std::int64_t first, std::int64_t size) {
    if (stream) {
      HWY_DYNAMIC_DISPATCH(copy_streaming_block)(from + first, to + first, size);
    } else {
      std::memcpy(to + first, from + first, static_cast<std::size_t>(size));
    }
  });
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
