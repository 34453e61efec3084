// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Lines of JSON as documents, from any text. Whatever comes: no crash; a refusal with the line,
// which exists; what is accepted has as many tokens as its documents together.

#include <algorithm>
#include <numeric>

#include "data/document_source.h"
#include "quadrille/base/check.h"

namespace quadrille {
namespace {

void read_lines(std::string_view text) {
  static const auto kTokenizer = make_tokenizer("bytes");
  static const std::string kPath = "fuzz.jsonl";
  const internal::DocumentWork work{text, &kPath, 1, true};
  const auto documents = internal::encode_documents(work, **kTokenizer, "text");
  if (!documents) {
    QD_CHECK(documents.error().code == Code::kInvalid);
    const std::string said = documents.error().to_text();
    const std::size_t place = said.find(kPath + ":");
    QD_CHECK(place != std::string::npos);
    const long line = std::strtol(said.c_str() + place + kPath.size() + 1, nullptr, 10);
    QD_CHECK(line >= 1 && line <= 1 + std::count(text.begin(), text.end(), '\n'));
    return;
  }
  const auto& lengths = documents->lengths;
  const auto total = std::accumulate(lengths.begin(), lengths.end(), std::int64_t{0});
  QD_CHECK(total == static_cast<std::int64_t>(documents->ids.size()));
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quadrille::read_lines({reinterpret_cast<const char*>(data), size});
  return 0;
}
