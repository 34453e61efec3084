// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/collective.h"

#include <bit>
#include <limits>

#include "kernels/bfloat16.h"
#include "kernels/fixture.h"

namespace quadrille::test {
namespace {

using Collective = KernelTest;

float widened(BFloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16U);
}
BFloat16 narrowed(float value) {
  return BFloat16{
      static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(nearest_bf16(value)) >> 16U)};
}

TEST_F(Collective, SumsHaveTheBitsOfAdditionsInOrderAndReachAllOrOne) {
  for (const std::size_t ranks : {2U, 3U, 4U, 5U}) {
    for (const std::int64_t count : {1, 15, 16384 * 2 + 5}) {
      for_each_instruction_set([&] {
        std::vector<std::unique_ptr<Tensor>> tensors;
        std::vector<TensorView> views;
        for (std::size_t r = 0; r < ranks; ++r) {
          tensors.push_back(random({count}));
          views.push_back(*tensors.back());
        }
        std::vector<float> sums = tensors[0]->get<float>();
        for (std::size_t r = 1; r < ranks; ++r) {
          const auto more = tensors[r]->get<float>();
          for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
        }
        const auto first = tensors[0]->get<float>();
        kernels::sum_into_one(*stream_, views, 1);
        EXPECT_EQ(tensors[1]->get<float>(), sums);
        EXPECT_EQ(tensors[0]->get<float>(), first);
        tensors[1]->set(std::vector<float>(sums.size(), 1.0F));
        std::vector<float> again = first;
        for (std::size_t r = 1; r < ranks; ++r) {
          const auto more = tensors[r]->get<float>();
          for (std::size_t i = 0; i < again.size(); ++i) again[i] += more[i];
        }
        kernels::sum_into_all(*stream_, views);
        for (const auto& tensor : tensors) EXPECT_EQ(tensor->get<float>(), again);
      });
    }
  }
}

TEST_F(Collective, SumsOfBf16AreRoundedOnceToTheNearest) {
  // 1 + 2^-8 + 2^-8: each addition rounded by itself would stay at 1 (a tie goes to even).
  const std::vector<std::vector<float>> values = {
      {1.0F, 1.0F, 3e38F, std::numeric_limits<float>::quiet_NaN(), -0.0F},
      {0x1p-8F, 0x1.8p-8F, 3e38F, 1.0F, -0.0F},
      {0x1p-8F, 0.0F, 0.0F, 1.0F, -0.0F}};
  for_each_instruction_set([&] {
    std::vector<std::unique_ptr<Tensor>> tensors;
    std::vector<TensorView> views;
    for (const auto& row : values) {
      std::vector<BFloat16> halves;
      for (const float value : row) halves.push_back(narrowed(value));
      tensors.push_back(empty({5}, DType::kBF16));
      tensors.back()->set(halves);
      views.push_back(*tensors.back());
    }
    kernels::sum_into_all(*stream_, views);
    for (const auto& tensor : tensors) {
      const auto sums = tensor->get<BFloat16>();
      EXPECT_EQ(widened(sums[0]), 1.0F + 0x1p-7F);
      EXPECT_EQ(widened(sums[1]), nearest_bf16(1.0F + 0x1.8p-8F));
      EXPECT_TRUE(std::isinf(widened(sums[2])));
      EXPECT_TRUE(std::isnan(widened(sums[3])));
      EXPECT_TRUE(std::signbit(widened(sums[4])));
    }
  });
}

TEST_F(Collective, CopiesAreExactPastCachesAndOffTheGrid) {
  constexpr std::int64_t kLarge = 9 << 20;  // more than is stored through caches
  for (const std::int64_t first : {0, 1, 63}) {
    for (const std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{100}, kLarge}) {
      const auto source = empty({count + 64}, DType::kU8);
      const auto target = empty({count + 64}, DType::kU8);
      std::vector<std::uint8_t> values(static_cast<std::size_t>(count) + 64);
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] = static_cast<std::uint8_t>(i * 7 + i / 256);
      }
      source->set(values);
      target->set(std::vector<std::uint8_t>(values.size(), 255));
      kernels::copy_past_caches(*stream_, source->view().flat(first, count),
                                target->view().flat(1, count));
      const auto got = target->get<std::uint8_t>();
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(first);
      EXPECT_TRUE(std::equal(begin, begin + count, got.begin() + 1));
      EXPECT_EQ(got[0], 255);
      EXPECT_EQ(got[static_cast<std::size_t>(count) + 1], 255);
    }
  }
}

}  // namespace
}  // namespace quadrille::test
