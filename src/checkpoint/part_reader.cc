// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/part_reader.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "checkpoint/fields.h"
#include "quadrille/base/hash.h"

namespace quadrille::internal {
namespace {

/// Stays in a core's own cache between the checksum and its copy.
constexpr std::size_t kCachedPiece = std::size_t{256} << 10;

Result<void> read_part(const PartToRead& part, StreamedReader& reader, const std::string& folder,
                       const TakeBytes& take) {
  const std::int64_t size = element_bytes(part.tensor->dtype);
  const RunBlock runs = part.part->runs();
  const std::int64_t total = part.place.bytes.count();
  Hasher hasher;
  for (std::int64_t done = 0; done < total;) {
    QD_ASSIGN_OR_RETURN(
        const std::span<const std::byte> bytes,
        reader.next(std::min(kCachedPiece, static_cast<std::size_t>(total - done))));
    hasher.add(bytes);
    // In runs: the part's bytes lie one after the other here, not in the tensor.
    for (std::span<const std::byte> rest = bytes; !rest.empty();) {
      const std::int64_t run = done / (runs.length * size);
      const std::int64_t within = done % (runs.length * size);
      const auto count =
          std::min(rest.size(), static_cast<std::size_t>(runs.length * size - within));
      take(part, (runs.first + run * runs.stride) * size + within, rest.first(count));
      done += static_cast<std::int64_t>(count);
      rest = rest.subspan(count);
    }
  }
  if (hash_text(hasher.digest()) == part.part->checksum) return {};
  return fail(damaged(folder + "/" + part.part->shard,
                      "the checksum of tensor \"" + part.tensor->name + "\" is wrong"));
}

}  // namespace

Result<void> read_parts(std::vector<PartToRead> parts, const std::string& folder,
                        const TakeBytes& take) {
  std::sort(parts.begin(), parts.end(), [](const PartToRead& a, const PartToRead& b) {
    return std::tie(a.part->shard, a.place.begin) < std::tie(b.part->shard, b.place.begin);
  });
  std::vector<FileRun> runs;
  runs.reserve(parts.size());
  for (const PartToRead& part : parts) runs.push_back(part.place);
  QD_ASSIGN_OR_RETURN(StreamedReader reader, StreamedReader::create(std::move(runs)));
  for (const PartToRead& part : parts) {
    QD_RETURN_IF_ERROR(read_part(part, reader, folder, take));
  }
  return {};
}

}  // namespace quadrille::internal
