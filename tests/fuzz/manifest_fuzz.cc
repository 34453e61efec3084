// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// The reader of manifests on any text: as it is, and with its checksum set right, since chance
// finds no checksum. Whatever comes: no crash; a refusal that says why; what is accepted reads back
// equal.

#include <cstddef>
#include <cstdint>
#include <string>

#include "quadrille/base/check.h"
#include "quadrille/base/hash.h"
#include "quadrille/checkpoint/checkpoint.h"

namespace quadrille {
namespace {

void read_manifest(std::string_view text) {
  const auto manifest = parse_manifest(text, "manifest.json");
  if (!manifest) {
    QD_CHECK(manifest.error().code == Code::kCorrupt || manifest.error().code == Code::kInvalid);
    QD_CHECK(!manifest.error().message.empty());
    return;
  }
  for (const ManifestTensor& tensor : manifest->tensors) QD_CHECK(tensor.shape.elements() >= 0);
  for (const ManifestShard& shard : manifest->shards) {
    QD_CHECK(shard.file.find('/') == std::string::npos);
  }
  const std::string written = write_manifest(*manifest);
  const auto again = parse_manifest(written, "again");
  QD_CHECK_MSG(again.has_value(), again.error().to_text());
  QD_CHECK(write_manifest(*again) == written);
}

/// The text with the checksum that it would need; as it is where it has no place for one.
std::string with_checksum(std::string text) {
  constexpr std::string_view kKey = "\"checksum\": \"";
  constexpr std::size_t kDigits = 16;
  const std::size_t begin = text.find(kKey);
  if (begin == std::string::npos || text.size() < begin + kKey.size() + kDigits) return text;
  const std::size_t digits = begin + kKey.size();
  const auto rest = std::string_view(text).substr(digits + kDigits);
  return text.replace(digits, kDigits, hash_text(hash64(rest)));
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  quadrille::read_manifest(text);
  quadrille::read_manifest(quadrille::with_checksum(text));
  return 0;
}
