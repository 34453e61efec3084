// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/model/decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <span>

#include "kernels/bfloat16.h"
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
    ASSERT_EQ(logits.size(), static_cast<std::size_t>(2 * spec_.vocab));
    const auto half = logits.begin() + spec_.vocab;
    expect_row_at(position, 0, {logits.begin(), half});
    expect_row_at(position, 1, {half, logits.end()});
  }
  void expect_row_at(std::int64_t position, std::size_t row, const std::vector<float>& logits) {
    ReferenceTransformer reference(spec_, harness_.values());
    const auto expected = reference.logits(batch_, row)[static_cast<std::size_t>(position)];
    ASSERT_EQ(logits.size(), expected.size());
    for (std::size_t v = 0; v < logits.size(); ++v) {
      EXPECT_NEAR(logits[v], expected[v].value(), 1e-4) << position << ", " << v;
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

TEST_P(DecoderOf2, SequencesOfDifferentLengthsGiveTheBitsThatEachGivesAlone) {
  const auto together = decoder();
  const auto logits_of = [&](const Result<TensorView>& logits) {
    return read_all<float>(harness_.stream(), logits.value()).value();
  };
  const auto row = [&](std::size_t sequence, std::int64_t count) {
    return std::span(batch_.tokens[sequence]).first(static_cast<std::size_t>(count));
  };
  ASSERT_TRUE(together->prompt(0, row(0, 5)));
  ASSERT_TRUE(together->prompt(1, row(1, 2)));
  EXPECT_EQ(together->past(0), 5);
  EXPECT_EQ(together->past(1), 2);
  // In any order, and not all of them.
  const std::vector<NextToken> both{{1, batch_.tokens[1][2]}, {0, batch_.tokens[0][5]}};
  std::vector<float> found = logits_of(together->step(both));
  const std::vector<float> last = logits_of(together->step({&both[1], 1}));
  found.insert(found.end(), last.begin(), last.end());
  std::vector<float> expected;
  const auto alone = decoder();
  const auto append = [&](const std::vector<float>& logits) {
    expected.insert(expected.end(), logits.begin(), logits.end());
  };
  ASSERT_TRUE(alone->prompt(1, row(1, 2)));
  append(logits_of(alone->step({&both[0], 1})));
  alone->clear(1);
  ASSERT_TRUE(alone->prompt(0, row(0, 5)));
  append(logits_of(alone->step({&both[1], 1})));
  append(logits_of(alone->step({&both[1], 1})));
  EXPECT_EQ(found, expected);
}

TEST_P(DecoderOf2, ACopiedSequenceGoesOnAsItsSourceWould) {
  const auto copied = decoder();
  const auto& row = batch_.tokens[0];
  ASSERT_TRUE(copied->prompt(0, std::span(row).first(4)));
  ASSERT_TRUE(copied->prompt(1, std::span(batch_.tokens[1]).first(6)));  // to be overwritten
  copied->copy_sequence(0, 1);
  EXPECT_EQ(copied->past(1), 4);
  const std::vector<NextToken> both{{0, row[4]}, {1, row[4]}};
  const auto logits = read_all<float>(harness_.stream(), copied->step(both).value()).value();
  const auto half = logits.begin() + spec_.vocab;
  EXPECT_TRUE(std::equal(logits.begin(), half, half));
  expect_row_at(4, 0, {logits.begin(), half});
}

/// Where rounding the weights changes nothing, the bf16 copies give the same bits.
TEST_P(DecoderOf2, Bf16WeightsAreTheRoundedWeights) {
  for (const Parameter& parameter : harness_.model().parameters()) {
    auto values = read_all<float>(harness_.stream(), parameter.value).value();
    for (float& value : values) value = test::nearest_bf16(value);
    write_all<float>(harness_.stream(), parameter.value, values);
  }
  const auto expected = decoder()->feed(tokens(0, 6)).value();
  const DecoderWeights weights =
      DecoderWeights::create(harness_.model(), Precision::kBf16, harness_.stream(), harness_.pool())
          .value();
  const auto rounded =
      Decoder::create(
          harness_.model(),
          {.stream = &harness_.stream(), .pool = &harness_.pool(), .weights = &weights, .batch = 2})
          .value();
  EXPECT_EQ(rounded->feed(tokens(0, 6)).value(), expected);
  const auto other =
      DecoderWeights::create(harness_.model(), Precision::kFp32, harness_.stream(), harness_.pool())
          .value();
  EXPECT_LT(weights.bytes(), other.bytes());
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
