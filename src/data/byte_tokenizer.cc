// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/byte_tokenizer.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kByteValues = 256;

class ByteTokenizer final : public Tokenizer {
 public:
  std::string name() const override { return "bytes"; }
  std::int64_t vocabulary() const override { return kByteValues; }
  std::optional<std::int32_t> end_of_text() const override { return std::nullopt; }

  Result<EncodedFront> encode_front(const TextPart& part, const EncodeOptions&) const override {
    EncodedFront front;
    front.bytes = part.text.size();
    front.ids.reserve(front.bytes);
    for (const char c : part.text) front.ids.push_back(static_cast<unsigned char>(c));
    return front;
  }
  std::string decode(std::span<const std::int32_t> ids) const override {
    std::string text;
    text.reserve(ids.size());
    for (const std::int32_t id : ids) text += token_text(id);
    return text;
  }
  std::string token_text(std::int32_t id) const override {
    if (id < 0 || id >= kByteValues) return {};
    return std::string(1, static_cast<char>(static_cast<unsigned char>(id)));
  }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() { return std::make_unique<ByteTokenizer>(); }

}  // namespace quadrille::internal
