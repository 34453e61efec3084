// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Randomness as a pure function of (seed, purpose, step or id, index): nothing to save in a
// checkpoint, nothing that depends on the number of ranks. All draws come from Philox4x32-10
// counters. Source: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3", section 4.3.

#include <array>
#include <cstdint>
#include <string_view>

namespace quadrille {

/// Four 32-bit words for a 64-bit key and a 128-bit counter (low, high).
[[nodiscard]] std::array<std::uint32_t, 4> philox(std::uint64_t key, std::uint64_t counter_low,
                                                  std::uint64_t counter_high);

/// What a draw is for; draws of different purposes never share a counter.
enum class RandomPurpose : std::uint32_t {
  kInitialise = 1,
  kDropout = 2,
  kOrder = 3,
  kSampling = 4,
  kTest = 5
};

/// One independent sequence of numbers, addressed by index. Cheap to copy.
class RandomStream {
 public:
  /// `id` is the tensor's, layer's or sample's own number; `step` the optimizer step or epoch.
  RandomStream(std::uint64_t seed, RandomPurpose purpose, std::uint64_t id, std::uint64_t step = 0);

  /// 32 uniform bits, the `index`-th of the sequence.
  [[nodiscard]] std::uint32_t bits(std::uint64_t index) const;
  /// In [0, 1) with 24 bits.
  [[nodiscard]] float uniform(std::uint64_t index) const;
  /// Standard normal by Box-Muller from the words of one counter; equal on every machine up to
  /// libm.
  [[nodiscard]] float normal(std::uint64_t index) const;

  /// The parts, for kernels that draw whole vectors: word w of counter c is bits(4*c + w).
  [[nodiscard]] std::uint64_t key() const { return key_; }
  [[nodiscard]] std::uint64_t counter_high() const { return counter_high_; }

 private:
  std::uint64_t key_ = 0;
  std::uint64_t counter_high_ = 0;
};

/// A 64-bit id from a name (for example a parameter's), stable for ever.
[[nodiscard]] std::uint64_t stable_id(std::string_view name);

/// A permutation of [0, size) computed element by element: a Feistel network over the next power of
/// four, walked until it lands inside. Source: Black & Rogaway 2002, "Ciphers with arbitrary finite
/// domains", section 3 (cycle walking).
class Permutation {
 public:
  Permutation(std::uint64_t size, RandomStream stream);
  [[nodiscard]] std::uint64_t operator()(std::uint64_t index) const;

 private:
  std::uint64_t size_;
  std::uint32_t half_bits_;
  RandomStream stream_;
};

}  // namespace quadrille
