// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The loops of the limits, compiled for each instruction set.

#include <omp.h>
#include <sys/mman.h>

#include <algorithm>

#include "bench/limits.h"
#include "quadrille/base/check.h"
#include "quadrille/base/units.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "bench/limit_loops.cc"
#include <hwy/foreach_target.h>  // Compiles this file once per instruction set.
// Must follow foreach_target.h.
#include <hwy/cache_control.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace quadrille::internal {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr std::int64_t kBlock = 1 << 14;  // floats that a thread takes at a time

float read_block(const float* a) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum0 = hn::Zero(d);
  auto sum1 = hn::Zero(d);
  for (std::int64_t i = 0; i < kBlock; i += 2 * width) {
    sum0 = hn::Add(sum0, hn::Load(d, a + i));
    sum1 = hn::Add(sum1, hn::Load(d, a + i + width));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum0, sum1)));
}

void copy_block(const float* a, float* b) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < kBlock; i += width) hn::Stream(hn::Load(d, a + i), d, b + i);
}

void accumulate_block(float* a, float* b) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  for (std::int64_t i = 0; i < kBlock; i += width) {
    const auto sum = hn::Mul(hn::Add(hn::Load(d, a + i), hn::Load(d, b + i)), hn::Set(d, 0.5F));
    hn::Store(sum, d, a + i);
    hn::Store(sum, d, b + i);
  }
}

template <bool kPastCaches>
void update_block(float* p, const float* g, float* m, float* v) {
  const hn::ScalableTag<float> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  const auto store = [d](auto value, float* to) HWY_ATTR {
    kPastCaches ? hn::Stream(value, d, to) : hn::Store(value, d, to);
  };
  const auto half = hn::Set(d, 0.5F);
  for (std::int64_t i = 0; i < kBlock; i += width) {
    const auto gradient = hn::Load(d, g + i);
    const auto first = hn::MulAdd(hn::Load(d, m + i), half, gradient);
    const auto second = hn::MulAdd(hn::Load(d, v + i), half, gradient);
    store(first, m + i);
    store(second, v + i);
    store(hn::MulAdd(hn::Sub(first, second), half, hn::Load(d, p + i)), p + i);
  }
}

void plain_update_block(float* p, const float* g, float* m, float* v) {
  update_block<false>(p, g, m, v);
}
void streaming_update_block(float* p, const float* g, float* m, float* v) {
  update_block<true>(p, g, m, v);
}

/// Ten chains of multiply-adds hide the latency of one; returns their sum, and the FLOPs by
/// `flops`.
float multiply_add_chains(std::int64_t rounds, double& flops) {
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, 0.999F);
  const auto term = hn::Set(d, 0.001F);
  // Chains that began alike would be one to the compiler.
  auto x0 = hn::Set(d, 0.0F), x1 = hn::Set(d, 0.1F), x2 = hn::Set(d, 0.2F);
  auto x3 = hn::Set(d, 0.3F), x4 = hn::Set(d, 0.4F), x5 = hn::Set(d, 0.5F);
  auto x6 = hn::Set(d, 0.6F), x7 = hn::Set(d, 0.7F), x8 = hn::Set(d, 0.8F);
  auto x9 = hn::Set(d, 0.9F);
  for (std::int64_t i = 0; i < rounds; ++i) {
    x0 = hn::MulAdd(x0, factor, term);
    x1 = hn::MulAdd(x1, factor, term);
    x2 = hn::MulAdd(x2, factor, term);
    x3 = hn::MulAdd(x3, factor, term);
    x4 = hn::MulAdd(x4, factor, term);
    x5 = hn::MulAdd(x5, factor, term);
    x6 = hn::MulAdd(x6, factor, term);
    x7 = hn::MulAdd(x7, factor, term);
    x8 = hn::MulAdd(x8, factor, term);
    x9 = hn::MulAdd(x9, factor, term);
  }
  flops = 2.0 * 10 * static_cast<double>(rounds) * static_cast<double>(hn::Lanes(d));
  const auto sum = hn::Add(hn::Add(hn::Add(x0, x1), hn::Add(x2, x3)),
                           hn::Add(hn::Add(x4, x5), hn::Add(hn::Add(x6, x7), hn::Add(x8, x9))));
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

}  // namespace HWY_NAMESPACE
}  // namespace quadrille::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace quadrille::internal {
namespace {

HWY_EXPORT(read_block);
HWY_EXPORT(copy_block);
HWY_EXPORT(accumulate_block);
HWY_EXPORT(plain_update_block);
HWY_EXPORT(streaming_update_block);
HWY_EXPORT(multiply_add_chains);

constexpr std::int64_t kBlockFloats = 1 << 14;
constexpr std::int64_t kBlockBytes = kBlockFloats * 4;

/// body(first float) for each block of `bytes`: the same thread takes the same blocks every time.
template <class Body>
void for_each_block(std::int64_t bytes, const Body& body) {
  const std::int64_t blocks = bytes / kBlockBytes;
#pragma omp parallel for schedule(static)
  for (std::int64_t i = 0; i < blocks; ++i) body(i * kBlockFloats);
}

}  // namespace

Traffic::Traffic(int arrays, std::int64_t bytes)
    : bytes_(std::max<std::int64_t>(bytes / kBlockBytes, 1) * kBlockBytes) {
  for (int i = 0; i < arrays; ++i) {
    void* memory = mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    QD_CHECK_MSG(memory != MAP_FAILED, "no memory for a limit's arrays");
    madvise(memory, static_cast<std::size_t>(bytes_), MADV_HUGEPAGE);
    auto* floats = static_cast<float*>(memory);
    for_each_block(bytes_, [=](std::int64_t at) { std::fill_n(floats + at, kBlockFloats, 0.25F); });
    arrays_.push_back(floats);
  }
}

Traffic::~Traffic() {
  for (float* array : arrays_) munmap(array, static_cast<std::size_t>(bytes_));
}

void Traffic::read() {
  const std::int64_t blocks = bytes_ / kBlockBytes;
  const float* a = arrays_[0];
  double sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : sum)
  for (std::int64_t i = 0; i < blocks; ++i) {
    sum += static_cast<double>(HWY_DYNAMIC_DISPATCH(read_block)(a + i * kBlockFloats));
  }
  sum_ += sum;
}

void Traffic::copy() {
  for_each_block(bytes_, [this](std::int64_t at) {
    HWY_DYNAMIC_DISPATCH(copy_block)(arrays_[0] + at, arrays_[1] + at);
  });
}

void Traffic::accumulate() {
  for_each_block(bytes_, [this](std::int64_t at) {
    HWY_DYNAMIC_DISPATCH(accumulate_block)(arrays_[0] + at, arrays_[1] + at);
  });
}

void Traffic::update() {
  for_each_block(bytes_, [this](std::int64_t at) {
    HWY_DYNAMIC_DISPATCH(plain_update_block)
    (arrays_[0] + at, arrays_[1] + at, arrays_[2] + at, arrays_[3] + at);
  });
}

void Traffic::update_past_caches() {
  for_each_block(bytes_, [this](std::int64_t at) {
    HWY_DYNAMIC_DISPATCH(streaming_update_block)
    (arrays_[0] + at, arrays_[1] + at, arrays_[2] + at, arrays_[3] + at);
  });
}

double multiply_add_peak() {
  constexpr std::int64_t kRounds = 4'000'000;
  double best = 0;
  for (int repetition = 0; repetition < 3; ++repetition) {
    double flops = 0;
    float keep = 0;
    const Seconds begin = monotonic_now();
#pragma omp parallel reduction(+ : flops, keep)
    {
      double mine = 0;
      keep += HWY_DYNAMIC_DISPATCH(multiply_add_chains)(kRounds, mine);
      flops += mine;
    }
    QD_CHECK(keep > 0);
    best = std::max(best, flops / (monotonic_now() - begin).count());
  }
  return best;
}

}  // namespace quadrille::internal
#endif  // HWY_ONCE
