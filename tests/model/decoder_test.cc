// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "model/model_harness.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;
using testing::ModelHarness;
using testing::odd_llama;
using testing::odd_model;
using testing::random_batch;
using testing::ReferenceBatch;
using testing::ReferenceTransformer;

/// A model with fresh weights and a batch of two random sequences that fill its context.
class DecoderOf2 : public ::testing::TestWithParam<ModelSpec> {
 protected:
  DecoderOf2() : harness_(spec_, {2, 7}) {
    harness_.randomise(random_);
    batch_ = random_batch(spec_, {2, 7}, random_);
    batch_.training = false;
  }

  std::unique_ptr<Decoder> decoder(std::int64_t capacity = 0, std::int64_t most_new = 0) {
    return Decoder::create(harness_.model(), {.stream = &harness_.stream(),
                                              .pool = &harness_.pool(),
                                              .batch = 2,
                                              .capacity = capacity,
                                              .most_new = most_new})
        .value();
  }

  /// Tokens [first, first + count) of both sequences.
  [[nodiscard]] std::vector<std::int32_t> tokens(std::int64_t first, std::int64_t count) const {
    std::vector<std::int32_t> ids;
    for (const auto& row : batch_.tokens) {
      ids.insert(ids.end(), row.begin() + first, row.begin() + first + count);
    }
    return ids;
  }

  /// Against the float64 reference's logits at `position` of both sequences.
  void expect_logits_at(std::int64_t position, const std::vector<float>& logits) {
    const auto vocab = static_cast<std::size_t>(spec_.vocab);
    ASSERT_EQ(logits.size(), 2 * vocab);
    ReferenceTransformer reference(spec_, harness_.values());
    for (std::size_t row = 0; row < 2; ++row) {
      const auto expected = reference.logits(batch_, row)[static_cast<std::size_t>(position)];
      for (std::size_t v = 0; v < vocab; ++v) {
        EXPECT_NEAR(logits[row * vocab + v], expected[v].value(), 1e-4) << position << ", " << v;
      }
    }
  }

  ModelSpec spec_ = GetParam();
  std::mt19937_64 random_{std::random_device{}()};
  ModelHarness harness_;
  ReferenceBatch batch_;
};

TEST_P(DecoderOf2, LogitsAfterEveryPrefixFedAtOnceMatchTheReference) {
  for (std::int64_t length = 1; length <= 7; ++length) {
    const auto fresh = decoder();
    expect_logits_at(length - 1, fresh->feed(tokens(0, length)).value());
    EXPECT_EQ(fresh->past(), length);
  }
}

TEST_P(DecoderOf2, LogitsTokenByTokenMatchTheReference) {
  const auto stepping = decoder();
  for (std::int64_t position = 0; position < 7; ++position) {
    expect_logits_at(position, stepping->feed(tokens(position, 1)).value());
  }
}

TEST_P(DecoderOf2, AnyCutOfThePromptIntoCallsAndPartsGivesTheSameLogits) {
  for (const std::int64_t cut : {1, 3, 6}) {
    const auto small = decoder(7, 2);  // calls of more than 2 tokens go through in parts
    expect_logits_at(cut - 1, small->feed(tokens(0, cut)).value());
    expect_logits_at(6, small->feed(tokens(cut, 7 - cut)).value());
  }
}

TEST_P(DecoderOf2, ForgetsItsPastWhenCleared) {
  const auto reused = decoder();
  const auto first = reused->feed(tokens(0, 4)).value();
  reused->clear();
  EXPECT_EQ(reused->past(), 0);
  EXPECT_EQ(reused->feed(tokens(0, 4)).value(), first);
}

TEST_P(DecoderOf2, LeasesOnceAndTagsTheCache) {
  const auto made = harness_.pool().leases_made();
  const auto stepping = decoder(5);
  const auto after_create = harness_.pool().leases_made();
  EXPECT_GT(after_create, made);
  for (std::int64_t position = 0; position < 5; ++position) {
    ASSERT_TRUE(stepping->feed(tokens(position, 1)).has_value());
  }
  EXPECT_EQ(harness_.pool().leases_made(), after_create);
  // Keys and values: 2 * layers caches of [2, 5, K*D] floats, each padded to 64 bytes.
  const std::int64_t cache = (2 * 5 * spec_.kv_columns() * 4 + 63) / 64 * 64;
  EXPECT_EQ(harness_.pool().leased(MemoryTag::kKvCache), Bytes(2 * spec_.layers * cache));
}

TEST_P(DecoderOf2, RefusesWhatDoesNotFitAndKeepsItsState) {
  const auto stepping = decoder(4);
  const auto first = stepping->feed(tokens(0, 3)).value();
  for (const auto& refused : {stepping->feed(tokens(0, 2)), stepping->feed({}),
                              stepping->feed(std::vector<std::int32_t>{1, 2, 3}),
                              stepping->feed(std::vector<std::int32_t>{1, 11}),
                              stepping->feed(std::vector<std::int32_t>{-1, 1})}) {
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::kInvalid);
  }
  EXPECT_EQ(stepping->past(), 3);
  expect_logits_at(3, stepping->feed(tokens(3, 1)).value());
}

TEST_P(DecoderOf2, RefusesACacheLongerThanTheContext) {
  const auto refused = Decoder::create(
      harness_.model(),
      {.stream = &harness_.stream(), .pool = &harness_.pool(), .capacity = spec_.context + 1});
  ASSERT_FALSE(refused.has_value());
  EXPECT_THAT(refused.error().message, HasSubstr("8 positions"));
}

std::string family_of(const ::testing::TestParamInfo<ModelSpec>& info) {
  return std::string(kModelFamilyText.text(info.param.family));
}
INSTANTIATE_TEST_SUITE_P(Families, DecoderOf2, ::testing::Values(odd_model(), odd_llama()),
                         family_of);

}  // namespace
}  // namespace quadrille
