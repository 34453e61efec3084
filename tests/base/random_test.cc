// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "quadrille/base/hash.h"

namespace quadrille {
namespace {

TEST(Philox, GivesThePublishedKnownAnswers) {
  // The known-answer vectors of the authors' Random123 library for philox4x32-10.
  const std::array<std::uint32_t, 4> zeros{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
  EXPECT_EQ(philox(0, 0, 0), zeros);
  const std::array<std::uint32_t, 4> ones{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
  EXPECT_EQ(philox(~0ULL, ~0ULL, ~0ULL), ones);
  const std::array<std::uint32_t, 4> pi{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
  EXPECT_EQ(philox(0x299f31d0a4093822ULL, 0x85a308d3243f6a88ULL, 0x0370734413198a2eULL), pi);
}

TEST(RandomStream, WordsFollowTheCounterAsKernelsDrawThem) {
  const RandomStream stream(7, RandomPurpose::kDropout, 3, 11);
  for (std::uint64_t i = 0; i < 12; ++i) {
    EXPECT_EQ(stream.bits(i), philox(stream.key(), i / 4, stream.counter_high())[i % 4]);
  }
}

TEST(RandomStream, DiffersInSeedPurposeIdAndStep) {
  std::set<std::uint32_t> firsts;
  for (const std::uint64_t seed : {1UL, 2UL}) {
    for (const auto purpose : {RandomPurpose::kInitialise, RandomPurpose::kOrder}) {
      for (const std::uint64_t id : {0UL, 1UL}) {
        for (const std::uint64_t step : {0UL, 1UL}) {
          firsts.insert(RandomStream(seed, purpose, id, step).bits(0));
        }
      }
    }
  }
  EXPECT_EQ(firsts.size(), 16U);
}

TEST(RandomStream, UniformsFillTheUnitInterval) {
  const RandomStream stream(1, RandomPurpose::kTest, 0);
  constexpr int kDraws = 40'000;
  double sum = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const float draw = stream.uniform(i);
    ASSERT_GE(draw, 0.0F);
    ASSERT_LT(draw, 1.0F);
    sum += draw;
  }
  // The mean of n uniforms deviates by sqrt(1/12/n); five of those never happen by chance.
  EXPECT_NEAR(sum / kDraws, 0.5, 5 * std::sqrt(1.0 / 12 / kDraws));
}

TEST(RandomStream, NormalsHaveTheMomentsOfAStandardNormal) {
  const RandomStream stream(5, RandomPurpose::kTest, 9);
  constexpr int kDraws = 40'000;
  double sum = 0, squares = 0, fourths = 0, neighbours = 0;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    const double draw = stream.normal(i);
    sum += draw;
    squares += draw * draw;
    fourths += draw * draw * draw * draw;
    neighbours += draw * stream.normal(i ^ 1);
  }
  // Variances of the four means: 1, E x^4 - 1 = 2, E x^8 - 9 = 96, 1 (times 1/n).
  const double unit = 5 / std::sqrt(kDraws);
  EXPECT_NEAR(sum / kDraws, 0, unit);
  EXPECT_NEAR(squares / kDraws, 1, unit * std::sqrt(2));
  EXPECT_NEAR(fourths / kDraws, 3, unit * std::sqrt(96));
  EXPECT_NEAR(neighbours / kDraws, 0, unit * std::sqrt(2));
}

TEST(Permutation, VisitsEveryElementOnceAtAnySize) {
  for (const std::uint64_t size : {1UL, 2UL, 3UL, 4UL, 5UL, 16UL, 17UL, 63UL, 64UL, 65UL, 1000UL}) {
    const Permutation permutation(size, RandomStream(3, RandomPurpose::kOrder, 0, size));
    std::vector<bool> seen(size);
    for (std::uint64_t i = 0; i < size; ++i) {
      const std::uint64_t place = permutation(i);
      ASSERT_LT(place, size);
      ASSERT_FALSE(seen[place]) << size;
      seen[place] = true;
    }
  }
}

TEST(Permutation, DiffersByEpochAndLeavesFewInPlace) {
  const Permutation first(1000, RandomStream(3, RandomPurpose::kOrder, 0, 0));
  const Permutation second(1000, RandomStream(3, RandomPurpose::kOrder, 0, 1));
  int in_place = 0, equal = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    in_place += first(i) == i ? 1 : 0;
    equal += first(i) == second(i) ? 1 : 0;
  }
  // One fixed point is expected; ten have a chance of about one in a million.
  EXPECT_LT(in_place, 10);
  EXPECT_LT(equal, 10);
}

TEST(Hash, PiecesGiveTheHashOfTheWhole) {
  std::vector<std::byte> bytes(100'000);
  const RandomStream stream(2, RandomPurpose::kTest, 0);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = std::byte(stream.bits(i) & 255);
  Hasher hasher;
  const std::span<const std::byte> all(bytes);
  for (std::size_t start = 0, length = 1; start < bytes.size();
       start += length, length = length * 3 + 1) {
    length = std::min(length, bytes.size() - start);
    hasher.add(all.subspan(start, length));
  }
  EXPECT_EQ(hasher.digest(), hash64(all));
  bytes[777] ^= std::byte{1};
  EXPECT_NE(hasher.digest(), hash64(all));
}

TEST(Hash, StaysWhatFilesAndSeedsWereMadeWith) {
  // XXH3 of nothing, from its specification; a parameter's id decides its initial values for ever.
  EXPECT_EQ(hash_text(hash64(std::string_view())), "2d06800538d394c2");
  EXPECT_EQ(stable_id("wte.weight"), hash64("wte.weight"));
  EXPECT_EQ(hash_text(0xAB), "00000000000000ab");
}

}  // namespace
}  // namespace quadrille
