// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/check.h"
#include "quadrille/checkpoint/safetensors.h"

namespace quadrille {

std::int64_t element_bytes(StoredType type) {
  switch (type) {
    case StoredType::kF64:
    case StoredType::kI64:
      return 8;
    case StoredType::kF32:
    case StoredType::kI32:
      return 4;
    case StoredType::kF16:
    case StoredType::kBF16:
    case StoredType::kI16:
      return 2;
    case StoredType::kU8:
    case StoredType::kI8:
    case StoredType::kBool:
      return 1;
  }
  return 0;
}

StoredType stored_type(DType dtype) {
  const auto type = kStoredTypeText.value(kDTypeText.text(dtype));
  QD_CHECK(type.has_value());
  return *type;
}

std::optional<DType> tensor_dtype(StoredType type) {
  return kDTypeText.value(kStoredTypeText.text(type));
}

}  // namespace quadrille
