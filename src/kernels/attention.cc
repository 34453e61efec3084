// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/attention.h"

#include <array>
#include <string_view>

#include "kernels/host_attention.h"
#include "kernels/operands.h"

namespace quadrille::kernels {
namespace {

/// `columns` must be float32 [B, T, at least first + heads * width].
void check_columns(const HeadColumns& columns, const char* name, const Shape& heads) {
  const Shape& shape = internal::shape_of(columns.tensor, name, 3);
  internal::require_f32(columns.tensor, name, {heads[0], heads[1], shape[2]});
  QD_CHECK(columns.first >= 0);
  QD_CHECK_MSG(columns.first + heads[2] <= shape[2], "too few columns for the heads");
}

void check_input(const AttentionInput& input, const Shape& out) {
  const std::int64_t width = out[2] / input.heads;
  const Shape keys{out[0], out[1], input.kv_heads * width};
  check_columns(input.queries, "queries", out);
  check_columns(input.keys, "keys", keys);
  check_columns(input.values, "values", keys);
  QD_CHECK_MSG(input.keys.tensor.shape() == input.values.tensor.shape(),
               "keys and values differ in columns");
}

/// Checks what all three operations share and returns [B, T, A*D].
Shape check(const AttentionInput& input, const TensorView& out) {
  const Shape& shape = internal::shape_of(out, "out", 3);
  QD_CHECK(input.heads >= 1);
  QD_CHECK(input.kv_heads >= 1);
  QD_CHECK_MSG(shape[2] % input.heads == 0, "the width is not a multiple of the heads");
  QD_CHECK_MSG(input.heads % input.kv_heads == 0, "key-value heads do not divide the heads");
  internal::require_f32(out, "out", shape);
  check_input(input, shape);
  return shape;
}

/// `products` of causal attention: each is a multiplication and an addition for each column of a
/// head and each pair of a query and a key that is not after it.
Operation causal(std::string_view name, const AttentionInput& input, const Shape& out,
                 double products) {
  const auto rows = static_cast<double>(out[0] * out[1]);
  const double keys = static_cast<double>(out[1] + 1) / 2;
  Operation operation(name, products * 2 * rows * keys * static_cast<double>(out[2]));
  operation.extents = {out[0], out[1], input.heads, out[2] / input.heads};
  return operation;
}

}  // namespace

AttentionInput packed_attention_input(const TensorView& qkv, std::int64_t heads,
                                      std::int64_t kv_heads) {
  const std::int64_t columns = internal::shape_of(qkv, "qkv", 3)[2];
  QD_CHECK_MSG(columns % (heads + 2 * kv_heads) == 0, "qkv does not divide into the heads");
  const std::int64_t width = columns / (heads + 2 * kv_heads);
  return {.heads = heads,
          .kv_heads = kv_heads,
          .queries = {qkv, 0},
          .keys = {qkv, heads * width},
          .values = {qkv, (heads + kv_heads) * width}};
}

void attention_forward(Stream& stream, const AttentionForward& arguments) {
  const AttentionInput& input = arguments.input;
  const Shape out = check(input, arguments.out);
  internal::require_f32(arguments.log_sum_exp, "log_sum_exp", {out[0], input.heads, out[1]});
  const std::array operands{internal::reads(input.queries.tensor),
                            internal::reads(input.keys.tensor),
                            internal::reads(input.values.tensor), internal::writes(arguments.out),
                            internal::writes(arguments.log_sum_exp)};
  stream.launch(causal("attention_forward", input, out, 2), operands,
                [arguments] { internal::host_attention_forward(arguments); });
}

void attention_backward(Stream& stream, const AttentionBackward& arguments) {
  const AttentionInput& input = arguments.input;
  const AttentionInput& gradient = arguments.gradient;
  const Shape out = check(input, arguments.out);
  const Shape rows{out[0], input.heads, out[1]};
  QD_CHECK(gradient.heads == input.heads);
  QD_CHECK(gradient.kv_heads == input.kv_heads);
  check_input(gradient, out);
  internal::require_f32(arguments.log_sum_exp, "log_sum_exp", rows);
  internal::require_f32(arguments.delta, "delta", rows);
  internal::require_f32(arguments.dout, "dout", out);
  const std::array operands{
      internal::reads(input.queries.tensor),  internal::reads(input.keys.tensor),
      internal::reads(input.values.tensor),   internal::reads(arguments.out),
      internal::reads(arguments.log_sum_exp), internal::reads(arguments.dout),
      internal::writes(arguments.delta),      internal::writes(gradient.queries.tensor),
      internal::writes(gradient.keys.tensor), internal::writes(gradient.values.tensor)};
  // Weights from queries and keys once more are how it is computed, not what it is.
  stream.launch(causal("attention_backward", input, out, 4), operands,
                [arguments] { internal::host_attention_backward(arguments); });
}

void attention_cached(Stream& stream, const AttentionCached& arguments) {
  const AttentionInput& input = arguments.input;
  const Shape out = check(input, arguments.out);
  const Shape& cache = internal::shape_of(arguments.key_cache, "key_cache", 4);
  const Shape expected{cache[0], input.kv_heads, cache[2], out[2] / input.heads};
  internal::require_f32(arguments.key_cache, "key_cache", expected);
  internal::require_f32(arguments.value_cache, "value_cache", expected);
  QD_CHECK(static_cast<std::int64_t>(arguments.sequences.size()) == out[0]);
  std::int64_t past = 0;  // of all sequences together
  for (const CachedSequence& sequence : arguments.sequences) {
    QD_CHECK(sequence.slot >= 0 && sequence.slot < cache[0]);
    QD_CHECK(sequence.past >= 0);
    QD_CHECK_MSG(sequence.past + out[1] <= cache[2], "the key and value caches are full");
    past += sequence.past;
  }
  const std::array operands{
      internal::reads(input.queries.tensor),    internal::reads(input.keys.tensor),
      internal::reads(input.values.tensor),     internal::updates(arguments.key_cache),
      internal::updates(arguments.value_cache), internal::writes(arguments.out)};
  Operation operation = causal("attention_cached", input, out, 2);
  operation.flops += 2 * 2 * static_cast<double>(past * out[1]) * static_cast<double>(out[2]);
  const std::int64_t columns =
      input.kv_heads * expected[3];  // of which the positions so far are read
  operation.bytes = (out.elements() * 2 + 2 * columns * (past + 2 * out[0] * out[1])) *
                    element_bytes(DType::kF32);
  stream.launch(operation, operands, [arguments] { internal::host_attention_cached(arguments); });
}

}  // namespace quadrille::kernels
