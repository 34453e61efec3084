// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// Tokenizer files of any content: the first byte chooses a tokenizer.json, or vocab.json,
// merges.txt and tokenizer_config.json with zeros between them. Whatever comes: no crash; a refusal
// that says something; and what is accepted encodes without changing the text.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "data/bpe_tokenizer.h"
#include "data/tokenizer_files.h"
#include "quadrille/base/check.h"

namespace quadrille {
namespace {

using internal::FileText;

void check_refusal(const Error& error) {
  QD_CHECK(error.code == Code::kInvalid);
  QD_CHECK(!error.to_text().empty());
}

void check_tokenizer(Result<internal::BpeDefinition> definition) {
  if (!definition) return check_refusal(definition.error());
  const auto tokenizer = internal::make_bpe_tokenizer(std::move(*definition), {});
  if (!tokenizer) return check_refusal(tokenizer.error());
  constexpr std::string_view kText = "It's 12345  caf\xC3\xA9\r\n\xFF<|endoftext|> the end";
  for (const bool special : {false, true}) {
    const auto ids = (*tokenizer)->encode(kText, {.special_tokens = special});
    if (!ids) return check_refusal(ids.error());  // a pattern may give up
    for (const std::int32_t id : *ids) QD_CHECK(id >= 0 && id < (*tokenizer)->vocabulary());
    QD_CHECK((*tokenizer)->decode(*ids) == kText);
  }
}

/// The text up to the next zero, which is taken away.
FileText next_file(std::string_view& rest, const char* name) {
  const std::string_view text = rest.substr(0, rest.find('\0'));
  rest.remove_prefix(std::min(rest.size(), text.size() + 1));
  return {name, std::string(text)};
}

void read_any_tokenizer(std::string_view input) {
  if (input.empty()) return;
  const char kind = input[0];
  std::string_view rest = input.substr(1);
  if (kind == 'j') {
    check_tokenizer(internal::parse_tokenizer_json({"tokenizer.json", std::string(rest)}, {}));
    return;
  }
  const FileText vocabulary = next_file(rest, "vocab.json");
  const FileText merges = next_file(rest, "merges.txt");
  const auto config = internal::parse_tokenizer_config(next_file(rest, "tokenizer_config.json"));
  if (!config) check_refusal(config.error());
  check_tokenizer(
      internal::parse_gpt2_files(vocabulary, merges, config.value_or(internal::TokenizerConfig{})));
}

}  // namespace
}  // namespace quadrille

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quadrille::read_any_tokenizer({reinterpret_cast<const char*>(data), size});
  return 0;
}
