// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/attention.h"

#include <array>

#include "kernels/host_attention.h"
#include "kernels/operands.h"

namespace quadrille::kernels {
namespace {

/// Checks what all three operations share and returns [B, T, A*D].
Shape check(std::int64_t heads, const TensorView& qkv, const TensorView& out) {
  const Shape& shape = internal::shape_of(out, "out", 3);
  QD_CHECK(heads >= 1);
  QD_CHECK_MSG(shape[2] % heads == 0, "the width is not a multiple of the heads");
  internal::require_f32(qkv, "qkv", {shape[0], shape[1], 3 * shape[2]});
  internal::require_f32(out, "out", shape);
  return shape;
}

}  // namespace

void attention_forward(Stream& stream, const AttentionForward& arguments) {
  const Shape out = check(arguments.heads, arguments.qkv, arguments.out);
  internal::require_f32(arguments.log_sum_exp, "log_sum_exp", {out[0], arguments.heads, out[1]});
  const std::array operands{internal::reads(arguments.qkv), internal::writes(arguments.out),
                            internal::writes(arguments.log_sum_exp)};
  stream.launch("attention_forward", operands,
                [arguments] { internal::host_attention_forward(arguments); });
}

void attention_backward(Stream& stream, const AttentionBackward& arguments) {
  const Shape out = check(arguments.heads, arguments.qkv, arguments.out);
  const Shape rows{out[0], arguments.heads, out[1]};
  internal::require_f32(arguments.log_sum_exp, "log_sum_exp", rows);
  internal::require_f32(arguments.delta, "delta", rows);
  internal::require_f32(arguments.dout, "dout", out);
  internal::require_f32(arguments.dqkv, "dqkv", arguments.qkv.shape());
  const std::array operands{
      internal::reads(arguments.qkv),         internal::reads(arguments.out),
      internal::reads(arguments.log_sum_exp), internal::reads(arguments.dout),
      internal::writes(arguments.delta),      internal::writes(arguments.dqkv)};
  stream.launch("attention_backward", operands,
                [arguments] { internal::host_attention_backward(arguments); });
}

void attention_cached(Stream& stream, const AttentionCached& arguments) {
  const Shape out = check(arguments.heads, arguments.qkv, arguments.out);
  const Shape& cache = internal::shape_of(arguments.key_cache, "key_cache", 3);
  const Shape expected{out[0], cache[1], out[2]};
  internal::require_f32(arguments.key_cache, "key_cache", expected);
  internal::require_f32(arguments.value_cache, "value_cache", expected);
  QD_CHECK(arguments.past >= 0);
  QD_CHECK_MSG(arguments.past + out[1] <= cache[1], "the key and value caches are full");
  const std::array operands{internal::reads(arguments.qkv), internal::updates(arguments.key_cache),
                            internal::updates(arguments.value_cache),
                            internal::writes(arguments.out)};
  stream.launch("attention_cached", operands,
                [arguments] { internal::host_attention_cached(arguments); });
}

}  // namespace quadrille::kernels
