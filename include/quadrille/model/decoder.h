// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The transformer's inference path: new tokens through all layers against a KV cache, logits of the
// last position. Uses the same parameters and blocks as training.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/memory/pool.h"
#include "quadrille/model/transformer.h"

namespace quadrille {

struct DecoderOptions {
  Stream* stream = nullptr;
  Pool* pool = nullptr;       ///< KV cache and activations come from here, once.
  std::int64_t batch = 1;     ///< Sequences decoded together.
  std::int64_t capacity = 0;  ///< Most positions; at most the model's context. 0: the context.
  std::int64_t most_new = 0;  ///< Tokens that activations are sized for; 0: the capacity. A longer
                              ///< prompt goes through in parts.
};

class Decoder {
 public:
  /// `model` has its parameter values bound and outlives the decoder.
  [[nodiscard]] static Result<std::unique_ptr<Decoder>> create(const Transformer& model,
                                                               const DecoderOptions& options);
  ~Decoder();  ///< Waits for its stream.

  [[nodiscard]] std::int64_t past() const;  ///< Positions in the cache.
  void clear();                             ///< Forgets the cache.
  /// Feeds `tokens` [batch, n], n >= 1, and returns logits [batch * V] of the last position of each
  /// sequence. Errors: kInvalid when past() + n exceeds the capacity or an id the vocabulary.
  [[nodiscard]] Result<std::vector<float>> feed(std::span<const std::int32_t> tokens);

 private:
  struct State;
  explicit Decoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
