// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/random.h"

#include <bit>
#include <cmath>
#include <numbers>

#include "quadrille/base/check.h"
#include "quadrille/base/hash.h"

namespace quadrille {
namespace {

// Enough rounds that small domains also look shuffled; each costs one Philox block.
constexpr std::uint64_t kFeistelRounds = 8;

constexpr std::uint64_t joined(std::uint32_t low, std::uint32_t high) {
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

}  // namespace

std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                    std::uint64_t counter_high) {
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
  constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
  constexpr int kRounds = 10;
  std::uint32_t key0 = static_cast<std::uint32_t>(key);
  std::uint32_t key1 = static_cast<std::uint32_t>(key >> 32);
  std::array<std::uint32_t, 4> x{
      static_cast<std::uint32_t>(counter_low), static_cast<std::uint32_t>(counter_low >> 32),
      static_cast<std::uint32_t>(counter_high), static_cast<std::uint32_t>(counter_high >> 32)};
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = kMultiplier0 * x[0];
    const std::uint64_t product1 = kMultiplier1 * x[2];
    x = {static_cast<std::uint32_t>(product1 >> 32) ^ x[1] ^ key0,
         static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ x[3] ^ key1,
         static_cast<std::uint32_t>(product0)};
    key0 += kWeyl0;
    key1 += kWeyl1;
  }
  return x;
}

// For one seed, (id, step, purpose) -> (key, counter_high) is Philox itself, a bijection of 128
// bits: two streams of a seed cannot meet as long as steps stay below 2^56.
RandomStream::RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t id,
                           std::uint64_t step) {
  QD_CHECK(step < (std::uint64_t{1} << 56));
  const auto words = philox(seed, id, (static_cast<std::uint64_t>(purpose) << 56) | step);
  key_ = joined(words[0], words[1]);
  counter_high_ = joined(words[2], words[3]);
}

std::uint32_t RandomStream::bits(std::uint64_t index) const {
  return philox(key_, index / 4, counter_high_)[index % 4];
}

float RandomStream::uniform(std::uint64_t index) const {
  return static_cast<float>(bits(index) >> 8) * 0x1p-24F;
}

float RandomStream::normal(std::uint64_t index) const {
  const auto words = philox(key_, index / 4, counter_high_);
  const std::size_t pair = index % 4 / 2 * 2;
  // In (0, 1], so that the logarithm is finite. Doubles: their libm results agree between machines
  // far below a float's precision.
  const double radius_draw = (static_cast<double>(words[pair]) + 1) * 0x1p-32;
  const double angle = 2 * std::numbers::pi * static_cast<double>(words[pair + 1]) * 0x1p-32;
  const double radius = std::sqrt(-2 * std::log(radius_draw));
  return static_cast<float>(radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

std::uint64_t stable_id(std::string_view name) { return hash64(name); }

Permutation::Permutation(std::uint64_t size, RandomStream stream)
    : size_(size), half_bits_(0), stream_(stream) {
  QD_CHECK(size > 0);
  QD_CHECK(size <= (std::uint64_t{1} << 62));
  half_bits_ = static_cast<std::uint32_t>((std::bit_width(size - 1) + 1) / 2);
}

std::uint64_t Permutation::operator()(std::uint64_t index) const {
  QD_CHECK(index < size_);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  // The domain is below 4 * size, so a walk of more than a few steps is rare; it ends, because the
  // cycle that starts inside comes back inside.
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 0; round < kFeistelRounds; ++round) {
      const std::uint64_t mixed = left ^ (stream_.bits((round << 32) | right) & mask);
      left = right;
      right = mixed;
    }
    index = (left << half_bits_) | right;
  } while (index >= size_);
  return index;
}

}  // namespace quadrille
