// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/batch.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "data/sample_text.h"

namespace quadrille {
namespace {

using data_test::corpus_job;
using data_test::Folder;
using data_test::varied_text;

struct Arrays {
  explicit Arrays(std::int64_t elements)
      : tokens(static_cast<std::size_t>(elements), -7), targets(tokens) {}
  [[nodiscard]] BatchArrays view() { return {tokens, targets}; }
  std::vector<std::int32_t> tokens;
  std::vector<std::int32_t> targets;
};

struct Fixture {
  explicit Fixture(JobSpec spec) : job(std::move(spec)), corpus(Corpus::open(job).value()) {}
  JobSpec job;
  std::unique_ptr<Corpus> corpus;
};

TEST(Batch, TargetsAreTheInputsOneTokenOn) {
  const Folder folder;
  const std::string text = varied_text(100);
  JobSpec job = corpus_job({folder.write("a", text)}, 5, 3);
  job.data.order = SampleOrder::kSequential;
  const Fixture fixture(job);
  const BatchReader reader(*fixture.corpus, fixture.job);
  Arrays arrays(15);
  reader.fill_train(2, 0, arrays.view());  // samples 6, 7, 8
  for (std::size_t row = 0; row < 3; ++row) {
    for (std::size_t t = 0; t < 5; ++t) {
      const std::size_t at = (6 + row) * 5 + t;
      EXPECT_EQ(arrays.tokens[row * 5 + t], static_cast<unsigned char>(text[at]));
      EXPECT_EQ(arrays.targets[row * 5 + t], static_cast<unsigned char>(text[at + 1]));
    }
  }
}

TEST(Batch, ASlotIsTheSameTextHoweverTheBatchIsCut) {
  const Folder folder;
  const Fixture fixture(corpus_job({folder.write("a", varied_text(300))}, 4, 6));
  const BatchReader reader(*fixture.corpus, fixture.job);
  // Step 12 takes slots 72 ... 77: the last two samples of the first epoch, four of the second.
  ASSERT_EQ(fixture.corpus->train().samples, 74);
  for (const std::int64_t step : {0, 12}) {
    Arrays whole(24);
    reader.fill_train(step, 0, whole.view());
    for (const std::int64_t rows : {1, 2, 3}) {
      Arrays cut(24);
      for (std::int64_t slot = 0; slot < 6; slot += rows) {
        const auto first = static_cast<std::size_t>(slot * 4);
        const auto count = static_cast<std::size_t>(rows * 4);
        reader.fill_train(step, slot,
                          {std::span(cut.tokens).subspan(first, count),
                           std::span(cut.targets).subspan(first, count)});
      }
      EXPECT_EQ(cut.tokens, whole.tokens);
      EXPECT_EQ(cut.targets, whole.targets);
    }
  }
}

TEST(Batch, ValidationCountsEverySampleOnceAndIgnoresSlotsPastTheEnd) {
  const Folder folder;
  const std::string text = varied_text(21);  // 5 samples of 4
  JobSpec job = corpus_job({folder.write("a", varied_text(100))}, 4, 3);
  job.data.validation = {folder.write("v", text)};
  job.training.evaluate_batches = 8;
  const Fixture fixture(job);
  const BatchReader reader(*fixture.corpus, fixture.job);
  ASSERT_EQ(reader.validation_batches(), 2);
  std::string seen;
  std::int64_t counted = 0;
  for (std::int64_t batch = 0; batch < 2; ++batch) {
    Arrays arrays(12);
    reader.fill_validation(batch, 0, arrays.view());
    for (std::size_t i = 0; i < 12; ++i) {
      if (arrays.targets[i] == kIgnoredTarget) continue;
      ++counted;
      seen += static_cast<char>(arrays.targets[i]);
    }
  }
  EXPECT_EQ(counted, 20);
  EXPECT_EQ(seen, text.substr(1));  // the targets in order are the text from its second token
}

TEST(Batch, EvaluationIsAsShortAsTheJobAsks) {
  const Folder folder;
  JobSpec job = corpus_job({folder.write("a", varied_text(100))}, 4, 2);
  job.data.validation = {folder.write("v", varied_text(100))};
  job.training.evaluate_batches = 3;
  const Fixture fixture(job);
  EXPECT_EQ(BatchReader(*fixture.corpus, job).validation_batches(), 3);
}

TEST(Batch, WithoutAValidationPartThereIsNoBatchToEvaluate) {
  const Folder folder;
  const Fixture fixture(corpus_job({folder.write("a", varied_text(100))}, 4, 2));
  EXPECT_EQ(BatchReader(*fixture.corpus, fixture.job).validation_batches(), 0);
}

}  // namespace
}  // namespace quadrille
