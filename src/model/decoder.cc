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
        head(spec, transformer.parameters()),
        rows(std::max(given.batch, given.most_new)),
        pasts(static_cast<std::size_t>(given.batch)) {
    for (std::int64_t layer = 1; layer <= spec.layers; ++layer) {
      blocks.emplace_back(spec, layer, transformer.parameters());
    }
  }

  /// The activations of the longest call, in the order in which `bind` takes them.
  [[nodiscard]] std::vector<Shape> activation_shapes() const {
    return {{rows},                           // tokens
            {rows, spec.hidden},              // x
            {rows, spec.hidden},              // branch
            {rows, spec.query_columns()},     // attention
            {rows, spec.qkv_columns()},       // qkv
            {rows, spec.expanded_columns()},  // expanded
            {rows, spec.ffn},                 // activated
            {rows},                           // mean
            {rows},                           // rstd
            {options.batch, spec.vocab},      // logits
            {options.weights->scratch(rows)}};
  }

  Result<void> lease_memory() {
    const Shape cache = {options.batch, spec.key_value_heads(), options.capacity,
                         spec.head_width()};
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
    most.stream = options.stream;
    most.weights = options.weights;
    tokens = views[0];
    most.x = views[1];
    most.branch = views[2];
    most.attention = views[3];
    most.qkv = views[4];
    most.expanded = views[5];
    most.activated = views[6];
    most.norm = {.mean = views[7], .rstd = views[8]};
    logits = views[9];
    most.scratch = views[10];
  }

  /// The buffers of a call with `count` new tokens for each of the sequences.
  [[nodiscard]] internal::DecodeBuffers buffers_for(std::vector<kernels::CachedSequence> sequences,
                                                    std::int64_t count) const {
    const auto batch = static_cast<std::int64_t>(sequences.size());
    const std::int64_t used_rows = batch * count;
    const auto part = [&](const TensorView& view) {
      const TensorView used = view.rows(0, used_rows);
      return used.reshape({batch, count, used.elements() / used_rows});
    };
    internal::DecodeBuffers buffers = most;
    buffers.sequences = std::move(sequences);
    buffers.x = part(most.x);
    buffers.branch = part(most.branch);
    buffers.attention = part(most.attention);
    buffers.qkv = part(most.qkv);
    buffers.expanded = part(most.expanded);
    buffers.activated = part(most.activated);
    buffers.norm = {.mean = most.norm.mean.rows(0, used_rows),
                    .rstd = most.norm.rstd.rows(0, used_rows)};
    return buffers;
  }

  /// New tokens [B, n] through all blocks.
  internal::DecodeBuffers run(std::vector<kernels::CachedSequence> sequences,
                              std::span<const std::int32_t> ids) {
    Stream& stream = *options.stream;
    const auto batch = static_cast<std::int64_t>(sequences.size());
    const std::int64_t count = static_cast<std::int64_t>(ids.size()) / batch;
    internal::DecodeBuffers buffers = buffers_for(std::move(sequences), count);
    const TensorView ids_view = tokens.rows(0, batch * count).reshape({batch, count});
    write_all<std::int32_t>(stream, ids_view, ids);
    internal::for_equal_positions(buffers.sequences, [&](std::int64_t first, std::int64_t equal,
                                                         std::int64_t position) {
      embedding.decode(stream, ids_view.rows(first, equal), position, buffers.x.rows(first, equal));
    });
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      buffers.key_cache = key_caches[i];
      buffers.value_cache = value_caches[i];
      blocks[i].decode(buffers);
    }
    for (const auto& sequence : buffers.sequences) past_of(sequence.slot) += count;
    return buffers;
  }

  std::int64_t& past_of(std::int64_t sequence) {
    QD_CHECK(sequence >= 0 && sequence < options.batch);
    return pasts[static_cast<std::size_t>(sequence)];
  }

  /// Whether `count` more positions and these ids may be fed.
  [[nodiscard]] Result<void> check_room(std::int64_t past, std::int64_t count) const {
    if (count <= options.capacity - past) return {};
    return fail(Code::kInvalid, std::to_string(count) + " tokens after " + std::to_string(past) +
                                    " exceed the KV cache's " + std::to_string(options.capacity) +
                                    " positions");
  }
  [[nodiscard]] Result<void> check_id(std::int32_t token) const {
    if (token >= 0 && token < spec.vocab) return {};
    return fail(Code::kInvalid, "token " + std::to_string(token) + " is not in the vocabulary of " +
                                    std::to_string(spec.vocab));
  }

  ModelSpec spec;
  DecoderOptions options;
  std::unique_ptr<DecoderWeights> own_weights;  ///< Where the options name none.
  internal::EmbeddingLayer embedding;
  std::vector<internal::BlockLayer> blocks;
  internal::HeadLayer head;
  std::int64_t rows;  ///< Most new tokens of a call.
  Lease cache_lease;
  Lease activation_lease;
  std::vector<TensorView> key_caches;    ///< By block: [batch, K, capacity, D].
  std::vector<TensorView> value_caches;  ///< By block: [batch, K, capacity, D].
  TensorView tokens;                     ///< [rows] int32
  internal::DecodeBuffers most;          ///< For that many rows.
  TensorView logits;                     ///< [batch, V]
  std::vector<std::int64_t> pasts;       ///< By sequence.
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
  std::unique_ptr<DecoderWeights> own;
  if (chosen.weights == nullptr) {
    QD_ASSIGN_OR_RETURN(
        DecoderWeights weights,
        DecoderWeights::create(model, Precision::kFp32, *options.stream, *options.pool));
    own = std::make_unique<DecoderWeights>(std::move(weights));
    chosen.weights = own.get();
  }
  auto state = std::make_unique<State>(model, chosen);
  state->own_weights = std::move(own);
  QD_RETURN_IF_ERROR(state->lease_memory());
  return std::unique_ptr<Decoder>(new Decoder(std::move(state)));
}

std::int64_t Decoder::past(std::int64_t sequence) const { return state_->past_of(sequence); }
void Decoder::clear() { std::fill(state_->pasts.begin(), state_->pasts.end(), 0); }
void Decoder::clear(std::int64_t sequence) { state_->past_of(sequence) = 0; }

Result<TensorView> Decoder::prompt(std::int64_t sequence, std::span<const std::int32_t> given) {
  State& state = *state_;
  QD_CHECK(!given.empty());
  QD_RETURN_IF_ERROR(
      state.check_room(state.past_of(sequence), static_cast<std::int64_t>(given.size())));
  for (const std::int32_t token : given) QD_RETURN_IF_ERROR(state.check_id(token));
  internal::DecodeBuffers buffers;
  while (!given.empty()) {
    const auto part = std::min(given.size(), static_cast<std::size_t>(state.options.most_new));
    buffers = state.run({{sequence, state.past_of(sequence)}}, given.first(part));
    given = given.subspan(part);
  }
  const TensorView logits = state.logits.rows(0, 1);
  state.head.decode(buffers, logits);
  return logits;
}

Result<TensorView> Decoder::step(std::span<const NextToken> next) {
  State& state = *state_;
  QD_CHECK(!next.empty());
  std::vector<kernels::CachedSequence> sequences;
  std::vector<std::int32_t> ids;
  for (const NextToken& token : next) {
    sequences.push_back({token.sequence, state.past_of(token.sequence)});
    ids.push_back(token.token);
    QD_RETURN_IF_ERROR(state.check_room(sequences.back().past, 1));
    QD_RETURN_IF_ERROR(state.check_id(token.token));
  }
  const internal::DecodeBuffers buffers = state.run(std::move(sequences), ids);
  const TensorView logits = state.logits.rows(0, static_cast<std::int64_t>(next.size()));
  state.head.decode(buffers, logits);
  return logits;
}

Result<std::vector<float>> Decoder::feed(std::span<const std::int32_t> tokens) {
  State& state = *state_;
  const std::int64_t batch = state.options.batch;
  const auto count = static_cast<std::int64_t>(tokens.size()) / batch;
  if (count < 1 || count * batch != static_cast<std::int64_t>(tokens.size())) {
    return fail(Code::kInvalid, std::to_string(tokens.size()) + " tokens do not divide into " +
                                    std::to_string(batch) + " sequences");
  }
  for (const std::int64_t past : state.pasts) QD_RETURN_IF_ERROR(state.check_room(past, count));
  for (const std::int32_t token : tokens) QD_RETURN_IF_ERROR(state.check_id(token));
  if (count == 1) {
    std::vector<NextToken> next;
    for (const std::int32_t token : tokens) {
      next.push_back({static_cast<std::int64_t>(next.size()), token});
    }
    QD_ASSIGN_OR_RETURN(const TensorView logits, step(next));
    return read_all<float>(*state.options.stream, logits);
  }
  std::vector<float> all;
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto own =
        tokens.subspan(static_cast<std::size_t>(b * count), static_cast<std::size_t>(count));
    QD_ASSIGN_OR_RETURN(const TensorView logits, prompt(b, own));
    QD_ASSIGN_OR_RETURN(const std::vector<float> row,
                        read_all<float>(*state.options.stream, logits));
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

void Decoder::copy_sequence(std::int64_t source, std::int64_t target) {
  State& state = *state_;
  const std::int64_t past = state.past_of(source);
  state.past_of(target) = past;
  if (source == target || past == 0) return;
  const std::int64_t heads = state.spec.key_value_heads();
  const std::int64_t head = state.options.capacity * state.spec.head_width();
  const std::int64_t count = past * state.spec.head_width();
  for (const auto* caches : {&state.key_caches, &state.value_caches}) {
    for (const TensorView& cache : *caches) {
      for (std::int64_t h = 0; h < heads; ++h) {
        kernels::copy(*state.options.stream, cache.flat((source * heads + h) * head, count),
                      cache.flat((target * heads + h) * head, count));
      }
    }
  }
}

}  // namespace quadrille
