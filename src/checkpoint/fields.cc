// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/fields.h"

#include <fmt/format.h>

#include <array>

namespace quadrille::internal {
namespace {

Result<const Json*> field(const Json& object, std::string_view key, Json::Kind kind) {
  const Json* value = object.find(key);
  if (value == nullptr) return fail(Code::kCorrupt, fmt::format("\"{}\" is missing", key));
  if (value->kind() != kind) {
    return fail(Code::kCorrupt,
                fmt::format("\"{}\" is {}, not {}", key, to_text(value->kind()), to_text(kind)));
  }
  return value;
}

/// A shape of up to four extents whose product and bytes stay within 64 bits.
Result<TensorForm> sized(StoredType dtype, const Json& extents) {
  std::array<std::int64_t, Shape::kMostDimensions> extent{};
  const std::size_t dimensions = extents.elements().size();
  if (dimensions > extent.size()) {
    return fail(Code::kInvalid, fmt::format("a tensor has {} dimensions, more than the {} that are "
                                            "supported",
                                            dimensions, extent.size()));
  }
  std::optional<std::int64_t> bytes = element_bytes(dtype);
  for (std::size_t i = 0; i < dimensions; ++i) {
    const Json& value = extents.elements()[i];
    if (!value.is_integer() || value.as_integer() < 0) {
      return fail(Code::kCorrupt, "an extent of \"shape\" is not a whole number from 0");
    }
    extent[i] = value.as_integer();
    bytes = checked_multiply(*bytes, extent[i]);
    if (!bytes) return fail(Code::kCorrupt, "\"shape\" has more than 2^63 bytes");
  }
  const auto& e = extent;
  const std::array<Shape, 5> shapes = {Shape{}, Shape{e[0]}, Shape{e[0], e[1]},
                                       Shape{e[0], e[1], e[2]}, Shape{e[0], e[1], e[2], e[3]}};
  return TensorForm{dtype, shapes[dimensions], Bytes(*bytes)};
}

}  // namespace

Error damaged(std::string_view file, std::string_view what) {
  return Error{Code::kCorrupt, fmt::format("\"{}\" is damaged: {}", file, what), {}};
}

Result<std::string> string_field(const Json& object, std::string_view key) {
  QD_ASSIGN_OR_RETURN(const Json* value, field(object, key, Json::Kind::kString));
  return value->as_string();
}

Result<std::int64_t> count_field(const Json& object, std::string_view key) {
  QD_ASSIGN_OR_RETURN(const Json* value, field(object, key, Json::Kind::kInteger));
  if (value->as_integer() < 0) {
    return fail(Code::kCorrupt, fmt::format("\"{}\" is {}", key, value->as_integer()));
  }
  return value->as_integer();
}

Result<const Json*> array_field(const Json& object, std::string_view key) {
  return field(object, key, Json::Kind::kArray);
}

Result<const Json*> object_field(const Json& object, std::string_view key) {
  return field(object, key, Json::Kind::kObject);
}

Result<TensorForm> form_fields(const Json& object) {
  QD_ASSIGN_OR_RETURN(const std::string text, string_field(object, "dtype"));
  const auto dtype = kStoredTypeText.value(text);
  if (!dtype) {
    return fail(Code::kInvalid, fmt::format("dtype \"{}\" is not supported; expected one of {}",
                                            text, kStoredTypeText.choices()));
  }
  QD_ASSIGN_OR_RETURN(const Json* shape, array_field(object, "shape"));
  return sized(*dtype, *shape);
}

Json shape_json(const Shape& shape) {
  Json extents = Json::array();
  for (int i = 0; i < shape.dimensions(); ++i) extents.push(shape[i]);
  return extents;
}

Result<Json> parse_object(std::string_view text, const std::string& file) {
  JsonParseOptions options;
  options.file = file;
  auto json = parse_json(text, options);
  if (!json) return fail(damaged(file, json.error().to_text()));
  if (!json->is_object()) return fail(damaged(file, "it holds no JSON object"));
  return json;
}

}  // namespace quadrille::internal
