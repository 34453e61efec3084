// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/data/tokenizer.h"

#include "quadrille/base/text.h"

namespace quadrille {
namespace {

constexpr std::int64_t kByteValues = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  std::int64_t vocabulary() const override { return kByteValues; }
  std::optional<std::int32_t> end_of_text() const override { return std::nullopt; }

  std::vector<std::int32_t> encode(std::string_view text) const override {
    std::vector<std::int32_t> ids;
    ids.reserve(text.size());
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= kByteValues) continue;
      text += static_cast<char>(static_cast<unsigned char>(id));
    }
    return text;
  }
};

}  // namespace

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const std::string& name) {
  if (name == "bytes") return std::make_unique<ByteTokenizer>();
  Error error{Code::kInvalid, "the tokenizer is not known", {}};
  error.diagnostics.push_back({"", 0, "data.tokenizer", "\"" + name + "\"", "\"bytes\""});
  return fail(std::move(error));
}

}  // namespace quadrille
