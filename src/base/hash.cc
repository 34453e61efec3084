// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/hash.h"

#include <xxhash.h>

#include "quadrille/base/check.h"

namespace quadrille {

std::uint64_t hash64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t hash64(std::string_view text) { return XXH3_64bits(text.data(), text.size()); }

std::string hash_text(std::uint64_t hash) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text(16, '0');
  for (std::size_t i = 16; i-- > 0; hash >>= 4) text[i] = kDigits[hash & 15];
  return text;
}

struct Hasher::State {
  XXH3_state_t* xxh = XXH3_createState();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_(std::make_unique<State>()) {
  QD_CHECK(state_->xxh != nullptr);
  XXH3_64bits_reset(state_->xxh);
}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::add(std::span<const std::byte> bytes) {
  QD_CHECK(state_ != nullptr);
  XXH3_64bits_update(state_->xxh, bytes.data(), bytes.size());
}

std::uint64_t Hasher::digest() const {
  QD_CHECK(state_ != nullptr);
  return XXH3_64bits_digest(state_->xxh);
}

}  // namespace quadrille
