// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/batch_loader.h"

#include <algorithm>

namespace quadrille::internal {

BatchLoader::BatchLoader(RankBase& base)
    : base_(base),
      reader_(*base.corpus, base.plan->job),
      host_tokens_(static_cast<std::size_t>(base.tokens.elements())),
      host_targets_(host_tokens_.size()) {}

std::int64_t BatchLoader::first_slot(std::int64_t micro_batch) const {
  return base_.plan->first_slot(base_.world->rank()) + micro_batch * base_.plan->micro_batch;
}

void BatchLoader::load_train(std::int64_t step, std::int64_t micro_batch) {
  reader_.fill_train(step, first_slot(micro_batch), {host_tokens_, host_targets_});
  upload();
}

std::int64_t BatchLoader::load_validation(std::int64_t batch, std::int64_t micro_batch) {
  reader_.fill_validation(batch, first_slot(micro_batch), {host_tokens_, host_targets_});
  const auto counted = std::count_if(host_targets_.begin(), host_targets_.end(),
                                     [](std::int32_t id) { return id != kIgnoredTarget; });
  if (counted > 0) upload();
  return counted;
}

void BatchLoader::upload() {
  base_.stream->upload(std::as_bytes(std::span(host_tokens_)), base_.tokens);
  base_.stream->upload(std::as_bytes(std::span(host_targets_)), base_.targets);
}

}  // namespace quadrille::internal
