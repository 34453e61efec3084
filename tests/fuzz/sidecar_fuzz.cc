// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Sidecars of token files from any text. Whatever comes: no crash; a refusal that names the file;
// what is accepted reads back equal.

#include "data/token_sidecar.h"
#include "quadrille/base/check.h"

namespace quadrille {
namespace {

void read_sidecar(std::string_view text) {
  const auto sidecar = internal::parse_sidecar(text, "fuzz.bin.json");
  if (!sidecar) {
    QD_CHECK(sidecar.error().code == Code::kInvalid);
    QD_CHECK(sidecar.error().to_text().find("fuzz.bin.json") != std::string::npos);
    return;
  }
  for (const std::int64_t start : sidecar->document_starts) {
    QD_CHECK(start >= 0 && start <= sidecar->tokens);
  }
  const std::string written = internal::write_sidecar(*sidecar);
  const auto again = internal::parse_sidecar(written, "again.json");
  QD_CHECK_MSG(again.has_value(), again.error().to_text());
  QD_CHECK(internal::write_sidecar(*again) == written);
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quadrille::read_sidecar({reinterpret_cast<const char*>(data), size});
  return 0;
}
