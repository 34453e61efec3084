// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a parameter of this program is called and lies in Hugging Face's files, and numbers of their
// types.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/checkpoint/safetensors.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille::internal {

inline constexpr std::string_view kHuggingFaceConfig = "config.json";
inline constexpr std::string_view kHuggingFaceWeights = "model.safetensors";
inline constexpr std::string_view kHuggingFaceIndex = "model.safetensors.index.json";

struct HuggingFacePlace {
  std::string name;       ///< As transformers writes it.
  std::string bare_name;  ///< As files of the model without its head call it.
  Shape shape;            ///< In the file.
  bool transposed = false;
};
[[nodiscard]] HuggingFacePlace hugging_face_place(const ModelSpec& model,
                                                  const ParameterShape& parameter);

/// Constants that files carry along with the parameters.
[[nodiscard]] bool is_hugging_face_buffer(std::string_view name);

/// Biases that transformers' model has and this one lacks: to be written as zeros.
[[nodiscard]] std::vector<HuggingFacePlace> missing_biases(const ModelSpec& model);

[[nodiscard]] Shape shape_of(const ParameterShape& parameter);

/// The stored numbers as floats: F32, F16 and BF16 have no others.
[[nodiscard]] bool is_float_type(StoredType type);
[[nodiscard]] std::vector<float> to_floats(StoredType type, std::span<const std::byte> bytes);

/// [rows, columns] -> [columns, rows].
[[nodiscard]] std::vector<float> transposed(std::span<const float> values, Shape shape);

}  // namespace quadrille::internal
