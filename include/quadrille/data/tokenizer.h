// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text to token ids and back.

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"

namespace quadrille {

class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  [[nodiscard]] virtual std::int64_t vocabulary() const = 0;
  [[nodiscard]] virtual std::optional<std::int32_t> end_of_text() const = 0;
  [[nodiscard]] virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// Ids outside the vocabulary decode to nothing.
  [[nodiscard]] virtual std::string decode(std::span<const std::int32_t> ids) const = 0;
};

/// "bytes": the 256 byte values. Errors: kInvalid for any other name in this version.
[[nodiscard]] Result<std::unique_ptr<Tokenizer>> make_tokenizer(const std::string& name);

}  // namespace quadrille
