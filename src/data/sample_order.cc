// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Samples are numbered through epochs: number n is the (n mod samples)-th of epoch n / samples.
// Steps take B numbers each without a gap, so an epoch's last partial batch continues into the
// next.

#include "quadrille/base/check.h"
#include "quadrille/base/random.h"
#include "quadrille/data/corpus.h"

namespace quadrille {

SampleOrderFunction::SampleOrderFunction(const JobSpec& job, std::int64_t samples)
    : order_(job.data.order),
      seed_(job.training.seed),
      samples_(samples),
      batch_(job.training.global_batch) {
  QD_CHECK(samples_ > 0);
  QD_CHECK(batch_ > 0);
}

std::int64_t SampleOrderFunction::sample(std::int64_t step, std::int64_t slot) const {
  QD_CHECK(step >= 0);
  QD_CHECK(slot >= 0 && slot < batch_);
  const auto first = checked_multiply(step, batch_);
  QD_CHECK(first.has_value());
  const auto number = checked_add(*first, slot);
  QD_CHECK(number.has_value());
  const std::int64_t within = *number % samples_;
  if (order_ == SampleOrder::kSequential) return within;
  const auto epoch = static_cast<std::uint64_t>(*number / samples_);
  const Permutation permutation(static_cast<std::uint64_t>(samples_),
                                RandomStream(seed_, RandomPurpose::kOrder, 0, epoch));
  return static_cast<std::int64_t>(permutation(static_cast<std::uint64_t>(within)));
}

}  // namespace quadrille
