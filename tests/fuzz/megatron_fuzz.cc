// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Megatron indices from any bytes: the first two say how long the .bin is. Whatever comes: no
// crash; a refusal that names the file; every sequence of an accepted index lies within the .bin,
// every document within the sequences.

#include "data/megatron_index.h"
#include "quadrille/base/check.h"

namespace quadrille {
namespace {

void read_index(std::span<const std::byte> input) {
  if (input.size() < 2) return;
  const std::int64_t bin_bytes =
      std::to_integer<std::int64_t>(input[0]) + 256 * std::to_integer<std::int64_t>(input[1]);
  const auto index = internal::MegatronIndex::parse(input.subspan(2), bin_bytes, "fuzz.idx");
  if (!index) {
    QD_CHECK(index.error().code == Code::kInvalid);
    QD_CHECK(index.error().message.find("fuzz.idx") != std::string::npos);
    return;
  }
  const std::int64_t width = internal::bytes_of(index->width());
  std::int64_t tokens = 0;
  for (std::int64_t i = 0; i < index->sequences(); ++i) {
    QD_CHECK(index->length(i) >= 0 && index->offset(i) >= 0);
    QD_CHECK(index->offset(i) + index->length(i) * width <= bin_bytes);
    tokens += index->length(i);
  }
  QD_CHECK(tokens == index->tokens());
  for (std::int64_t d = 0; d < index->documents(); ++d) {
    QD_CHECK(index->document(d) <= index->document(d + 1));
  }
  QD_CHECK(index->document(index->documents()) == index->sequences());
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quadrille::read_index(std::as_bytes(std::span(data, size)));
  return 0;
}
