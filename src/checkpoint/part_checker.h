// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Follows a tensor's bytes, part after part, and compares each part with its checksum at its end.
// Of tensors whose parts are one run each.

#include <cstddef>
#include <span>
#include <string>

#include "quadrille/base/hash.h"
#include "quadrille/checkpoint/checkpoint.h"

namespace quadrille::internal {

class PartChecker {
 public:
  /// From the beginning of part `part`. `folder` is the checkpoint's, for errors; all outlive this.
  PartChecker(const ManifestTensor& tensor, const std::string& folder, std::size_t part = 0);

  /// The next bytes, which may go over into further parts. Errors: kCorrupt naming the shard.
  [[nodiscard]] Result<void> add(std::span<const std::byte> bytes);

 private:
  [[nodiscard]] Result<void> close_part();

  const ManifestTensor& tensor_;
  const std::string& folder_;
  std::size_t part_;
  std::int64_t missing_ = 0;  ///< Bytes of this part.
  Hasher hasher_;
};

}  // namespace quadrille::internal
