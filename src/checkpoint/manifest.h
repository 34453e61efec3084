// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The parts that manifest.json and a rank's note about its shard share.

#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/json.h"
#include "quadrille/checkpoint/checkpoint.h"

namespace quadrille::internal {

inline constexpr std::string_view kManifestName = "manifest.json";

/// A tensor that lies whole in one shard has its own name and shape there; a part is
/// one-dimensional and named for its extent: `wte.weight[0:4096]`, `wte.weight[0:64]x512` where it
/// is 512 runs.
[[nodiscard]] bool is_one_part(const ManifestTensor& tensor);
[[nodiscard]] std::string part_name(const std::string& tensor, const ManifestPart& part);
[[nodiscard]] std::string name_in_shard(const ManifestTensor& tensor, const ManifestPart& part);

/// Its parts cover it once, in order. Errors: kCorrupt saying where they do not.
[[nodiscard]] Result<void> check_cover(const ManifestTensor& tensor);

[[nodiscard]] Json to_json(const ManifestTensor& tensor);
[[nodiscard]] Json to_json(const ManifestShard& shard);

// Errors of these are kCorrupt without a file name.
[[nodiscard]] Result<ManifestTensor> manifest_tensor_from(const Json& json);
[[nodiscard]] Result<ManifestShard> manifest_shard_from(const Json& json);

/// What one rank did for a save: its shard, or why there is none.
struct ShardNote {
  ManifestShard shard;
  std::vector<ManifestTensor> tensors;
  std::optional<Error> error;
};
[[nodiscard]] std::string write_note(const ShardNote& note);
[[nodiscard]] Result<ShardNote> parse_note(std::string_view text, const std::string& file);

}  // namespace quadrille::internal
