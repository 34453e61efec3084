// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "quadrille/data/tokenizer.h"

namespace quadrille {

StreamingEncoder::StreamingEncoder(const Tokenizer& tokenizer, const EncodeOptions& options)
    : tokenizer_(tokenizer), options_(options) {}

Result<std::vector<std::int32_t>> StreamingEncoder::encode_pending(bool last) {
  const TextPart part{.text = pending_, .first = first_, .last = last};
  QD_ASSIGN_OR_RETURN(EncodedFront front, tokenizer_.encode_front(part, options_));
  pending_.erase(0, front.bytes);
  first_ = first_ && front.bytes == 0;
  return std::move(front.ids);
}

Result<std::vector<std::int32_t>> StreamingEncoder::feed(std::string_view chunk) {
  pending_ += chunk;
  if (pending_.size() < worth_trying_) return std::vector<std::int32_t>{};
  auto ids = encode_pending(false);
  // A word without an end would be looked at once a chunk; at twice the length all looks together
  // cost no more than two at the whole.
  worth_trying_ = 2 * pending_.size();
  return ids;
}

Result<std::vector<std::int32_t>> StreamingEncoder::finish() {
  auto ids = encode_pending(true);
  pending_.clear();
  worth_trying_ = 0;
  first_ = true;
  return ids;
}

}  // namespace quadrille
