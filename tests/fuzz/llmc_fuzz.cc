// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// The reader of llm.c's headers on any bytes. Whatever comes: no crash; a refusal that names the
// file; what is accepted counts exactly the tokens that are there.

#include "data/llmc_header.h"
#include "quadrille/base/check.h"

namespace quadrille {
namespace {

void read_header(std::span<const std::byte> file) {
  const auto header = internal::parse_llmc(file, "fuzz.bin");
  if (!header) {
    QD_CHECK(header.error().code == Code::kInvalid);
    QD_CHECK(header.error().message.find("fuzz.bin") != std::string::npos);
    return;
  }
  QD_CHECK(internal::looks_like_llmc(file));
  const internal::TokenRun run{file.data() + internal::kLlmcHeaderBytes, header->tokens,
                               header->width};
  QD_CHECK(run.end() == file.data() + file.size());
  const std::int64_t largest = internal::largest_token(run);
  QD_CHECK(!internal::first_at_least(run, largest + 1).has_value());
  if (header->tokens > 0) QD_CHECK(internal::first_at_least(run, largest).has_value());
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quadrille::read_header(std::as_bytes(std::span(data, size)));
  return 0;
}
