// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/embedding.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "kernels/host_parallel.h"
#include "kernels/operands.h"

namespace quadrille::kernels {
namespace {

/// Extents that both directions share.
struct Extents {
  std::int64_t rows;      // B * T
  std::int64_t sequence;  // T
  std::int64_t width;     // H
};

Extents check(const TensorView& tokens, const TensorView& token_rows,
              const TensorView& position_rows, const TensorView& states) {
  const Shape& ids = internal::shape_of(tokens, "tokens", 2);
  const Shape& table = internal::shape_of(token_rows, "token rows", 2);
  internal::require(tokens, "tokens", DType::kI32, ids);
  internal::require_f32(token_rows, "token rows", table);
  if (!position_rows.empty()) {
    const Shape& positions = internal::shape_of(position_rows, "position rows", 2);
    internal::require_f32(position_rows, "position rows", {positions[0], table[1]});
  }
  internal::require_f32(states, "states", {ids[0], ids[1], table[1]});
  return {ids[0] * ids[1], ids[1], table[1]};
}

/// Which ids a table has rows of.
struct IdRange {
  std::int64_t first;
  std::int64_t count;
  std::int64_t vocab;

  /// The id's row, or -1 where it belongs to another part of the vocabulary.
  [[nodiscard]] std::int64_t row_of(std::int32_t id) const {
    QD_CHECK_MSG(id >= 0 && id < vocab,
                 "token id " + std::to_string(id) + " of a vocabulary of " + std::to_string(vocab));
    const std::int64_t row = id - first;
    return row >= 0 && row < count ? row : -1;
  }
};

template <class Arguments>
IdRange range_of(const Arguments& arguments, const TensorView& table) {
  const std::int64_t rows = table.shape()[0];
  return {arguments.first_id, rows, arguments.vocab == 0 ? rows : arguments.vocab};
}

/// target = token + position, either of which may be absent.
void put_row(const float* token, const float* position, float* target, std::int64_t width) {
  if (token == nullptr && position == nullptr) {
    std::fill_n(target, width, 0.0F);
  } else if (token == nullptr || position == nullptr) {
    std::copy_n(token == nullptr ? position : token, width, target);
  } else {
    for (std::int64_t i = 0; i < width; ++i) target[i] = token[i] + position[i];
  }
}

void look_up(const EmbeddingForward& arguments, const Extents& extents) {
  const std::int32_t* tokens = arguments.tokens.host<std::int32_t>();
  const float* table = arguments.token_table.host<float>();
  const TensorView& places = arguments.position_table;
  const float* positions =
      places.empty() ? nullptr : places.host<float>() + arguments.first_position * extents.width;
  float* out = arguments.out.host<float>();
  const IdRange ids = range_of(arguments, arguments.token_table);
  constexpr std::int64_t kRows = 16;
  internal::parallel_blocks(extents.rows, kRows, [=](std::int64_t first, std::int64_t count) {
    for (std::int64_t row = first; row < first + count; ++row) {
      const std::int64_t id = ids.row_of(tokens[row]);
      const float* token = id < 0 ? nullptr : table + id * extents.width;
      const float* position =
          positions == nullptr ? nullptr : positions + row % extents.sequence * extents.width;
      put_row(token, position, out + row * extents.width, extents.width);
    }
  });
}

/// Each thread adds its own columns of all rows, so every sum runs in token order.
void scatter(const EmbeddingBackward& arguments, const Extents& extents) {
  const std::int32_t* tokens = arguments.tokens.host<std::int32_t>();
  const float* dout = arguments.dout.host<float>();
  float* table = arguments.token_gradient.host<float>();
  const TensorView& places = arguments.position_gradient;
  float* positions = places.empty() ? nullptr : places.host<float>();
  const IdRange ids = range_of(arguments, arguments.token_gradient);
  constexpr std::int64_t kColumns = 64;
  internal::parallel_blocks(extents.width, kColumns, [=](std::int64_t first, std::int64_t count) {
    for (std::int64_t row = 0; row < extents.rows; ++row) {
      const float* source = dout + row * extents.width + first;
      if (const std::int64_t id = ids.row_of(tokens[row]); id >= 0) {
        float* token = table + id * extents.width + first;
        for (std::int64_t i = 0; i < count; ++i) token[i] += source[i];
      }
      if (positions == nullptr) continue;
      float* position = positions + row % extents.sequence * extents.width + first;
      for (std::int64_t i = 0; i < count; ++i) position[i] += source[i];
    }
  });
}

/// Of the tables only the tokens' rows are touched: `rows` of H in all, and the ids.
Operation over_rows(std::string_view name, const Extents& extents, std::int64_t rows) {
  Operation operation(name);
  operation.bytes = extents.rows * (rows * extents.width + 1) * element_bytes(DType::kF32);
  return operation;
}

}  // namespace

void embedding_forward(Stream& stream, const EmbeddingForward& arguments) {
  const Extents extents =
      check(arguments.tokens, arguments.token_table, arguments.position_table, arguments.out);
  QD_CHECK(arguments.first_position >= 0);
  if (!arguments.position_table.empty()) {
    QD_CHECK_MSG(arguments.first_position + extents.sequence <= arguments.position_table.shape()[0],
                 "a position beyond the model's context");
  }
  const std::array operands{
      internal::reads(arguments.tokens), internal::reads(arguments.token_table),
      internal::reads(arguments.position_table), internal::writes(arguments.out)};
  const std::int64_t tables = arguments.position_table.empty() ? 1 : 2;
  stream.launch(over_rows("embedding_forward", extents, 1 + tables), operands,
                [arguments, extents] { look_up(arguments, extents); });
}

void embedding_backward(Stream& stream, const EmbeddingBackward& arguments) {
  const Extents extents = check(arguments.tokens, arguments.token_gradient,
                                arguments.position_gradient, arguments.dout);
  if (!arguments.position_gradient.empty()) {
    QD_CHECK_MSG(extents.sequence <= arguments.position_gradient.shape()[0],
                 "a position beyond the model's context");
  }
  const std::array operands{internal::reads(arguments.tokens), internal::reads(arguments.dout),
                            internal::updates(arguments.token_gradient),
                            internal::updates(arguments.position_gradient)};
  const std::int64_t tables = arguments.position_gradient.empty() ? 1 : 2;
  stream.launch(over_rows("embedding_backward", extents, 1 + 2 * tables), operands,
                [arguments, extents] { scatter(arguments, extents); });
}

}  // namespace quadrille::kernels
