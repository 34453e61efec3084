// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads saved parts of tensors in the order in which they lie on the disk, each against its
// checksum while its bytes are in the cache.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/streamed_reader.h"
#include "quadrille/checkpoint/checkpoint.h"

namespace quadrille::internal {

/// A part that is to be read whole.
struct PartToRead {
  const ManifestTensor* tensor = nullptr;
  const ManifestPart* part = nullptr;
  FileRun place;
  std::size_t wanted = 0;  ///< For whoever takes the bytes: which of the tensors that he asked for.
};

/// Takes bytes of a part; the offset is in the tensor. They stay valid during the call.
using TakeBytes = std::function<void(const PartToRead& part, std::int64_t offset,
                                     std::span<const std::byte> bytes)>;

/// `folder` is the checkpoint's, for errors. Errors: kCorrupt naming the shard and the tensor;
/// what reading failed with.
[[nodiscard]] Result<void> read_parts(std::vector<PartToRead> parts, const std::string& folder,
                                      const TakeBytes& take);

}  // namespace quadrille::internal
