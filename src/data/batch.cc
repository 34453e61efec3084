// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/batch.h"

#include <algorithm>
#include <vector>

#include "quadrille/base/check.h"

namespace quadrille {
namespace {

/// One row of the arrays from the T + 1 tokens of a sample.
void write_row(std::span<const std::int32_t> sample, std::int64_t row, const BatchArrays& out) {
  const auto length = static_cast<std::ptrdiff_t>(sample.size()) - 1;
  std::copy(sample.begin(), sample.end() - 1, out.tokens.begin() + row * length);
  std::copy(sample.begin() + 1, sample.end(), out.targets.begin() + row * length);
}

}  // namespace

BatchReader::BatchReader(const Corpus& corpus, const JobSpec& job)
    : corpus_(corpus),
      order_(job, corpus.train().samples),
      sequence_(job.training.sequence),
      global_batch_(job.training.global_batch) {
  const std::int64_t samples = corpus.validation().samples;
  const std::int64_t whole = samples / global_batch_ + (samples % global_batch_ > 0 ? 1 : 0);
  validation_batches_ = std::min(job.training.evaluate_batches, whole);
}

std::int64_t BatchReader::rows(const BatchArrays& out) const {
  QD_CHECK(out.tokens.size() == out.targets.size());
  const auto elements = static_cast<std::int64_t>(out.tokens.size());
  QD_CHECK(elements % sequence_ == 0);
  return elements / sequence_;
}

void BatchReader::fill_train(std::int64_t step, std::int64_t first_slot,
                             const BatchArrays& out) const {
  std::vector<std::int32_t> sample(static_cast<std::size_t>(sequence_ + 1));
  for (std::int64_t row = 0; row < rows(out); ++row) {
    corpus_.read(DataPart::kTrain, order_.sample(step, first_slot + row), sample);
    write_row(sample, row, out);
  }
}

void BatchReader::fill_validation(std::int64_t batch, std::int64_t first_slot,
                                  const BatchArrays& out) const {
  QD_CHECK(batch >= 0 && batch < validation_batches_);
  const std::int64_t samples = corpus_.validation().samples;
  std::vector<std::int32_t> sample(static_cast<std::size_t>(sequence_ + 1));
  for (std::int64_t row = 0; row < rows(out); ++row) {
    const std::int64_t slot = first_slot + row;
    QD_CHECK(slot >= 0 && slot < global_batch_);
    const std::int64_t number = batch * global_batch_ + slot;
    if (number < samples) {
      corpus_.read(DataPart::kValidation, number, sample);
      write_row(sample, row, out);
      continue;
    }
    std::fill_n(out.tokens.begin() + row * sequence_, sequence_, 0);
    std::fill_n(out.targets.begin() + row * sequence_, sequence_, kIgnoredTarget);
  }
}

}  // namespace quadrille
