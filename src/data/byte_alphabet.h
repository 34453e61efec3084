// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The alphabet in which files of byte-level BPE write bytes: each byte is one visible character.
// Bytes that print stand for themselves (read as Latin-1), the 68 others for U+0100 and on, in
// order: a space is written U+0120.
// Source: Radford et al. 2019, Language Models are Unsupervised Multitask Learners, section 2.2,
// and the encoder published with it.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quadrille::internal {

/// The 256 bytes in the order in which GPT-2 numbers them: those that print, then the others.
[[nodiscard]] const std::array<std::uint8_t, 256>& byte_order();
/// A token of a file as bytes; nothing where a character is not of the alphabet.
[[nodiscard]] std::optional<std::string> bytes_from_alphabet(std::string_view written);
/// One byte in the alphabet, as UTF-8.
[[nodiscard]] std::string byte_in_alphabet(std::uint8_t byte);

}  // namespace quadrille::internal
