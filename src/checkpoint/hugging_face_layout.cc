// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/hugging_face_layout.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>

#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

constexpr std::string_view kGpt2Prefix = "transformer.";
constexpr std::string_view kHead = "lm_head.weight";

/// GPT-2's linear layers are one-by-one convolutions there, whose matrices are [in, out].
bool is_gpt2_convolution(std::string_view name) {
  constexpr std::array<std::string_view, 4> kEnds{".attn.c_attn.weight", ".attn.c_proj.weight",
                                                  ".mlp.c_fc.weight", ".mlp.c_proj.weight"};
  return std::any_of(kEnds.begin(), kEnds.end(),
                     [&](std::string_view end) { return name.ends_with(end); });
}

float from_half(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const int fraction = bits & 1023;
  const float sign = (bits & 0x8000) != 0 ? -1.0F : 1.0F;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(fraction), -24);
  if (exponent < 31) return sign * std::ldexp(static_cast<float>(1024 + fraction), exponent - 25);
  return fraction != 0 ? std::nanf("") : sign * INFINITY;
}

float from_brain(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

}  // namespace

HuggingFacePlace hugging_face_place(const ModelSpec& model, const ParameterShape& parameter) {
  HuggingFacePlace place{parameter.name, parameter.name, shape_of(parameter), false};
  if (model.family != ModelFamily::kGpt2) return place;
  if (parameter.name != kHead) place.name = std::string(kGpt2Prefix) + parameter.name;
  if (is_gpt2_convolution(parameter.name)) {
    place.transposed = true;
    place.shape = {place.shape[1], place.shape[0]};
  }
  return place;
}

bool is_hugging_face_buffer(std::string_view name) {
  constexpr std::array<std::string_view, 3> kEnds{".attn.bias", ".attn.masked_bias",
                                                  ".rotary_emb.inv_freq"};
  return std::any_of(kEnds.begin(), kEnds.end(),
                     [&](std::string_view end) { return name.ends_with(end); });
}

std::vector<HuggingFacePlace> missing_biases(const ModelSpec& model) {
  std::vector<HuggingFacePlace> places;
  if (model.family != ModelFamily::kGpt2 || model.bias) return places;
  ModelSpec with_bias = model;
  with_bias.bias = true;
  for (const ParameterShape& parameter : parameter_shapes(with_bias)) {
    if (parameter.name.ends_with(".bias")) places.push_back(hugging_face_place(model, parameter));
  }
  return places;
}

Shape shape_of(const ParameterShape& parameter) {
  QD_CHECK(parameter.shape.size() == 1 || parameter.shape.size() == 2);
  if (parameter.shape.size() == 1) return {parameter.shape[0]};
  return {parameter.shape[0], parameter.shape[1]};
}

bool is_float_type(StoredType type) {
  return type == StoredType::kF32 || type == StoredType::kF16 || type == StoredType::kBF16;
}

std::vector<float> to_floats(StoredType type, std::span<const std::byte> bytes) {
  QD_CHECK(is_float_type(type));
  const auto size = static_cast<std::size_t>(element_bytes(type));
  QD_CHECK(bytes.size() % size == 0);
  std::vector<float> values(bytes.size() / size);
  if (type == StoredType::kF32) {
    if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, &bytes[i * size], size);
    values[i] = type == StoredType::kF16 ? from_half(bits) : from_brain(bits);
  }
  return values;
}

std::vector<float> transposed(std::span<const float> values, Shape shape) {
  QD_CHECK(shape.dimensions() == 2);
  QD_CHECK(shape.elements() == static_cast<std::int64_t>(values.size()));
  const auto rows = static_cast<std::size_t>(shape[0]);
  const auto columns = static_cast<std::size_t>(shape[1]);
  constexpr std::size_t kTile = 32;  // Both sides of a tile stay in the first cache.
  std::vector<float> result(values.size());
  for (std::size_t row = 0; row < rows; row += kTile) {
    for (std::size_t column = 0; column < columns; column += kTile) {
      for (std::size_t r = row; r < std::min(row + kTile, rows); ++r) {
        for (std::size_t c = column; c < std::min(column + kTile, columns); ++c) {
          result[c * rows + r] = values[r * columns + c];
        }
      }
    }
  }
  return result;
}

}  // namespace quadrille::internal
