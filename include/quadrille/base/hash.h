// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checksums of files and tensors: XXH3 with 64 bits, written as 16 hexadecimal digits. It finds
// damage, not forgery.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace quadrille {

[[nodiscard]] std::uint64_t hash64(std::span<const std::byte> bytes);
[[nodiscard]] std::uint64_t hash64(std::string_view text);
[[nodiscard]] std::string hash_text(std::uint64_t hash);

/// The same hash over bytes that arrive in pieces.
class Hasher {
 public:
  Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;
  ~Hasher();
  void add(std::span<const std::byte> bytes);
  [[nodiscard]] std::uint64_t digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace quadrille
