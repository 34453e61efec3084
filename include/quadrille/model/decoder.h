// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The transformer's inference path: new tokens through all layers against a KV cache, logits of the
// last position. Uses the same parameters and blocks as training. A decoder holds several sequences
// of different lengths; what one gives are the same bits whichever others are beside it.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/config/job_spec.h"
#include "quadrille/memory/pool.h"
#include "quadrille/model/transformer.h"

namespace quadrille {

/// The matrices that decoding multiplies with: the model's own values, or copies of them in bf16,
/// half the bytes to read for each token. Norms, biases and embeddings are the model's.
class DecoderWeights {
 public:
  /// `model` has its parameter values bound. Enqueues on `stream`. Errors: kExhausted.
  [[nodiscard]] static Result<DecoderWeights> create(const Transformer& model, Precision precision,
                                                     Stream& stream, Pool& pool);
  /// Parameter `index`, whose own value is `value`, as kernels::Projection takes it.
  [[nodiscard]] TensorView of(int index, const TensorView& value) const;
  /// Whether products read the parameter.
  [[nodiscard]] bool multiplied(int index) const {
    return multiplied_[static_cast<std::size_t>(index)];
  }
  /// Elements of kernels::Projection's scratch for products of up to `rows` rows.
  [[nodiscard]] std::int64_t scratch(std::int64_t rows) const;
  /// That are read for one token.
  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  Lease lease_;
  std::vector<bool> multiplied_;     ///< By parameter.
  std::vector<TensorView> rounded_;  ///< By parameter; empty: the model's own.
  Bytes bytes_;
};

struct DecoderOptions {
  Stream* stream = nullptr;
  Pool* pool = nullptr;                     ///< KV cache and activations come from here, once.
  const DecoderWeights* weights = nullptr;  ///< Outlives the decoder. Null: the model's own values.
  std::int64_t batch = 1;                   ///< Sequences.
  std::int64_t capacity = 0;  ///< Most positions; at most the model's context. 0: the context.
  std::int64_t most_new = 0;  ///< Prompt tokens that activations are sized for; 0: the capacity. A
                              ///< longer prompt goes through in parts.
};

struct NextToken {
  std::int64_t sequence = 0;
  std::int32_t token = 0;
};

class Decoder {
 public:
  /// `model` has its parameter values bound and outlives the decoder.
  [[nodiscard]] static Result<std::unique_ptr<Decoder>> create(const Transformer& model,
                                                               const DecoderOptions& options);
  ~Decoder();  ///< Waits for its stream.

  [[nodiscard]] std::int64_t past(std::int64_t sequence = 0) const;  ///< Positions in the cache.
  void clear();                                                      ///< Forgets the cache.
  void clear(std::int64_t sequence);

  // Logits are on the device until the next call. Errors: kInvalid when a sequence would exceed the
  // capacity or an id the vocabulary; nothing has changed then.

  /// Feeds at least one token to one sequence: logits [1, V] of the last.
  [[nodiscard]] Result<TensorView> prompt(std::int64_t sequence,
                                          std::span<const std::int32_t> tokens);
  /// One token for each of some sequences: logits [n, V] in that order.
  [[nodiscard]] Result<TensorView> step(std::span<const NextToken> next);
  /// Feeds `tokens` [batch, n], n >= 1, and returns logits [batch * V] of the last position of each
  /// sequence.
  [[nodiscard]] Result<std::vector<float>> feed(std::span<const std::int32_t> tokens);

  /// Makes `target` go on from what `source` has been fed.
  void copy_sequence(std::int64_t source, std::int64_t target);

 private:
  struct State;
  explicit Decoder(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
