// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Strict reads from the JSON of manifests and safetensors headers, which may be damaged or made to
// harm: nothing is taken over unchecked, and sizes cannot overflow later. Errors are kCorrupt with
// what is wrong; whoever knows the file adds its name.

#include <cstdint>
#include <string>
#include <string_view>

#include "quadrille/base/json.h"
#include "quadrille/base/result.h"
#include "quadrille/checkpoint/safetensors.h"
#include "quadrille/device/tensor_view.h"

namespace quadrille::internal {

/// "<file>" is damaged: <what>.
[[nodiscard]] Error damaged(std::string_view file, std::string_view what);

[[nodiscard]] Result<std::string> string_field(const Json& object, std::string_view key);
/// A whole number from 0.
[[nodiscard]] Result<std::int64_t> count_field(const Json& object, std::string_view key);
[[nodiscard]] Result<const Json*> array_field(const Json& object, std::string_view key);
[[nodiscard]] Result<const Json*> object_field(const Json& object, std::string_view key);

struct TensorForm {
  StoredType dtype = StoredType::kF32;
  Shape shape;
  Bytes bytes;
};
/// The fields "dtype" and "shape". Errors: kInvalid for a dtype or number of dimensions that this
/// version does not read; kCorrupt for what no file may say.
[[nodiscard]] Result<TensorForm> form_fields(const Json& object);

[[nodiscard]] Json shape_json(const Shape& shape);

/// Parsed JSON whose top is an object. Errors: kCorrupt.
[[nodiscard]] Result<Json> parse_object(std::string_view text, const std::string& file);

}  // namespace quadrille::internal
