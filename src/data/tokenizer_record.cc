// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "quadrille/base/hash.h"
#include "quadrille/base/text.h"
#include "quadrille/data/token_file.h"

namespace quadrille {

std::string TokenizerRecord::to_text() const {
  return fmt::format("\"{}\" ({} ids, hash {})", name, grouped(vocabulary), hash);
}

TokenizerRecord record_of(const Tokenizer& tokenizer, const std::string& name) {
  TokenizerRecord record{name, "", tokenizer.vocabulary(), tokenizer.end_of_text()};
  Hasher hasher;
  const auto add_number = [&](std::int64_t number) {
    hasher.add(std::as_bytes(std::span(&number, 1)));
  };
  add_number(record.vocabulary);
  add_number(record.end_of_text.value_or(-1));
  for (std::int64_t id = 0; id < record.vocabulary; ++id) {
    const std::string text = tokenizer.token_text(static_cast<std::int32_t>(id));
    // The length keeps "ab", "c" apart from "a", "bc".
    add_number(static_cast<std::int64_t>(text.size()));
    hasher.add(std::as_bytes(std::span(text)));
  }
  record.hash = hash_text(hasher.digest());
  return record;
}

}  // namespace quadrille
