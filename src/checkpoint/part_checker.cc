// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/part_checker.h"

#include <algorithm>

#include "checkpoint/fields.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {

PartChecker::PartChecker(const ManifestTensor& tensor, const std::string& folder, std::size_t part)
    : tensor_(tensor), folder_(folder), part_(part) {
  QD_CHECK(part < tensor.parts.size());
  missing_ = tensor.parts[part].extent.length * element_bytes(tensor.dtype);
}

Result<void> PartChecker::add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto count = std::min(bytes.size(), static_cast<std::size_t>(missing_));
    hasher_.add(bytes.first(count));
    bytes = bytes.subspan(count);
    missing_ -= static_cast<std::int64_t>(count);
    if (missing_ == 0) QD_RETURN_IF_ERROR(close_part());
  }
  return {};
}

Result<void> PartChecker::close_part() {
  QD_CHECK(part_ < tensor_.parts.size());
  const ManifestPart& part = tensor_.parts[part_];
  if (hash_text(hasher_.digest()) != part.checksum) {
    return fail(damaged(folder_ + "/" + part.shard,
                        "the checksum of tensor \"" + tensor_.name + "\" is wrong"));
  }
  hasher_ = Hasher();
  if (++part_ < tensor_.parts.size()) {
    missing_ = tensor_.parts[part_].extent.length * element_bytes(tensor_.dtype);
  }
  return {};
}

}  // namespace quadrille::internal
