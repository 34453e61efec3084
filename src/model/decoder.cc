// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/model/decoder.h"

#include <algorithm>
#include <utility>

#include "model/block_layer.h"
#include "model/decode_buffers.h"
#include "model/embedding_layer.h"
#include "model/head_layer.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille {
namespace {

/// Cuts views out of one lease, each at a cache line.
class Carver {
 public:
  void reserve(Shape shape) { total_ += padded(shape); }
  [[nodiscard]] Bytes total() const { return total_; }
  TensorView take(const Lease& lease, DType dtype, Shape shape) {
    const TensorView view = lease.view_at(taken_, dtype, shape);
    taken_ += padded(shape);
    return view;
  }

 private:
  /// float32 and int32 alike.
  static Bytes padded(Shape shape) { return Bytes((shape.elements() * 4 + 63) / 64 * 64); }
  Bytes total_;
  Bytes taken_;
};

}  // namespace

struct Decoder::State {
  State(const Transformer& transformer, const DecoderOptions& given)
      : spec(transformer.spec()),
        options(given),
        embedding(spec, transformer.parameters()),
        head(spec, transformer.parameters()) {
    for (std::int64_t layer = 1; layer <= spec.layers; ++layer) {
      blocks.emplace_back(spec, layer, transformer.parameters());
    }
  }

  /// Bytes of the activations of the longest call, in the order in which `bind` takes them.
  [[nodiscard]] std::vector<Shape> activation_shapes() const {
    const std::int64_t rows = options.batch * options.most_new;
    const std::int64_t h = spec.hidden;
    return {{rows},                           // tokens
            {rows, h},                        // x
            {rows, h},                        // branch
            {rows, spec.query_columns()},     // attention
            {rows, spec.qkv_columns()},       // qkv
            {rows, spec.expanded_columns()},  // expanded
            {rows, spec.ffn},                 // activated
            {rows},                           // mean
            {rows},                           // rstd
            {options.batch, h},
            {options.batch, h},
            {options.batch, spec.vocab}};
  }

  Result<void> lease_memory() {
    const Shape cache = {options.batch, options.capacity, spec.kv_columns()};
    Carver caches;
    for (std::int64_t i = 0; i < 2 * spec.layers; ++i) caches.reserve(cache);
    QD_ASSIGN_OR_RETURN(cache_lease,
                        options.pool->lease(caches.total(), MemoryTag::kKvCache, "KV cache"));
    for (std::int64_t i = 0; i < spec.layers; ++i) {
      key_caches.push_back(caches.take(cache_lease, DType::kF32, cache));
      value_caches.push_back(caches.take(cache_lease, DType::kF32, cache));
    }
    Carver activations;
    for (const Shape& shape : activation_shapes()) activations.reserve(shape);
    QD_ASSIGN_OR_RETURN(activation_lease,
                        options.pool->lease(activations.total(), MemoryTag::kActivation,
                                            "activations of a decoder"));
    std::vector<TensorView> views;
    for (const Shape& shape : activation_shapes()) {
      const DType dtype = views.empty() ? DType::kI32 : DType::kF32;
      views.push_back(activations.take(activation_lease, dtype, shape));
    }
    bind(views);
    return {};
  }

  void bind(const std::vector<TensorView>& views) {
    tokens = views[0];
    most.stream = options.stream;
    most.x = views[1];
    most.branch = views[2];
    most.attention = views[3];
    most.qkv = views[4];
    most.expanded = views[5];
    most.activated = views[6];
    most.norm = {.mean = views[7], .rstd = views[8]};
    last = views[9];
    last_normed = views[10];
    logits = views[11];
  }

  /// The buffers of a call with `count` new tokens a sequence.
  [[nodiscard]] internal::DecodeBuffers buffers_for(std::int64_t count) const {
    const std::int64_t rows = options.batch * count;
    const auto part = [&](const TensorView& view) {
      const TensorView used = view.rows(0, rows);
      return used.reshape({options.batch, count, used.elements() / rows});
    };
    internal::DecodeBuffers buffers = most;
    buffers.past = past;
    buffers.x = part(most.x);
    buffers.branch = part(most.branch);
    buffers.attention = part(most.attention);
    buffers.qkv = part(most.qkv);
    buffers.expanded = part(most.expanded);
    buffers.activated = part(most.activated);
    buffers.norm = {.mean = most.norm.mean.rows(0, rows), .rstd = most.norm.rstd.rows(0, rows)};
    return buffers;
  }

  /// New tokens [batch, count] through all blocks; count is at most most_new.
  internal::DecodeBuffers run(std::span<const std::int32_t> ids, std::int64_t count) {
    Stream& stream = *options.stream;
    internal::DecodeBuffers buffers = buffers_for(count);
    const TensorView ids_view =
        tokens.rows(0, options.batch * count).reshape({options.batch, count});
    write_all<std::int32_t>(stream, ids_view, ids);
    embedding.decode(stream, ids_view, past, buffers.x);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      buffers.key_cache = key_caches[i];
      buffers.value_cache = value_caches[i];
      blocks[i].decode(buffers);
    }
    past += count;
    return buffers;
  }

  Result<std::vector<float>> last_logits(const internal::DecodeBuffers& buffers,
                                         std::int64_t count) {
    Stream& stream = *options.stream;
    for (std::int64_t b = 0; b < options.batch; ++b) {
      const std::int64_t position = (b * count + count - 1) * spec.hidden;
      kernels::copy(stream, buffers.x.flat(position, spec.hidden), last.rows(b, 1).flat());
    }
    const internal::Norm::Statistics statistics = {.mean = most.norm.mean.rows(0, options.batch),
                                                   .rstd = most.norm.rstd.rows(0, options.batch)};
    head.decode(stream, last, last_normed, statistics, logits);
    return read_all<float>(stream, logits);
  }

  ModelSpec spec;
  DecoderOptions options;
  internal::EmbeddingLayer embedding;
  std::vector<internal::BlockLayer> blocks;
  internal::HeadLayer head;
  Lease cache_lease;
  Lease activation_lease;
  std::vector<TensorView> key_caches;    ///< By block: [batch, capacity, K*D].
  std::vector<TensorView> value_caches;  ///< By block: [batch, capacity, K*D].
  TensorView tokens;                     ///< [batch * most_new] int32
  internal::DecodeBuffers most;          ///< For batch * most_new rows.
  TensorView last;                       ///< [batch, H]
  TensorView last_normed;                ///< [batch, H]
  TensorView logits;                     ///< [batch, V]
  std::int64_t past = 0;
};

Decoder::Decoder(std::unique_ptr<State> state) : state_(std::move(state)) {}

Decoder::~Decoder() {
  // The cache may still be in use; an operation that failed has been reported to who waited.
  (void)state_->options.stream->synchronize();
}

Result<std::unique_ptr<Decoder>> Decoder::create(const Transformer& model,
                                                 const DecoderOptions& options) {
  QD_CHECK(options.stream != nullptr);
  QD_CHECK(options.pool != nullptr);
  DecoderOptions chosen = options;
  const std::int64_t context = model.spec().context;
  if (chosen.capacity == 0) chosen.capacity = context;
  if (chosen.most_new == 0) chosen.most_new = chosen.capacity;
  if (chosen.capacity < 1 || chosen.capacity > context) {
    return fail(Code::kInvalid, "a KV cache of " + std::to_string(chosen.capacity) +
                                    " positions; the model has 1 to " + std::to_string(context));
  }
  if (chosen.batch < 1 || chosen.most_new < 1) {
    return fail(Code::kInvalid, "a decoder needs at least one sequence and one token a call");
  }
  chosen.most_new = std::min(chosen.most_new, chosen.capacity);
  auto state = std::make_unique<State>(model, chosen);
  QD_RETURN_IF_ERROR(state->lease_memory());
  return std::unique_ptr<Decoder>(new Decoder(std::move(state)));
}

std::int64_t Decoder::past() const { return state_->past; }
void Decoder::clear() { state_->past = 0; }

Result<std::vector<float>> Decoder::feed(std::span<const std::int32_t> tokens) {
  State& state = *state_;
  const std::int64_t batch = state.options.batch;
  const auto count = static_cast<std::int64_t>(tokens.size()) / batch;
  if (count < 1 || count * batch != static_cast<std::int64_t>(tokens.size())) {
    return fail(Code::kInvalid, std::to_string(tokens.size()) + " tokens do not divide into " +
                                    std::to_string(batch) + " sequences");
  }
  if (count > state.options.capacity - state.past) {
    return fail(Code::kInvalid, std::to_string(count) + " tokens after " +
                                    std::to_string(state.past) + " exceed the KV cache's " +
                                    std::to_string(state.options.capacity) + " positions");
  }
  for (const std::int32_t token : tokens) {
    if (token >= 0 && token < state.spec.vocab) continue;
    return fail(Code::kInvalid, "token " + std::to_string(token) + " is not in the vocabulary of " +
                                    std::to_string(state.spec.vocab));
  }
  for (std::int64_t first = 0;;) {
    const std::int64_t part = std::min(state.options.most_new, count - first);
    std::vector<std::int32_t> ids;
    for (std::int64_t b = 0; b < batch; ++b) {
      const auto start = tokens.begin() + b * count + first;
      ids.insert(ids.end(), start, start + part);
    }
    const internal::DecodeBuffers buffers = state.run(ids, part);
    first += part;
    if (first == count) return state.last_logits(buffers, part);
  }
}

}  // namespace quadrille
