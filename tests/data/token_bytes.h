// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Token files made by hand, number by number, so that each can be wrong in one place.

#include <cstdint>
#include <string>
#include <vector>

namespace quadrille::data_test {

template <class T>
std::string raw(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

/// A header of llm.c; the tokens follow it.
inline std::string llmc_header(std::uint32_t magic, std::uint32_t version, std::uint32_t count) {
  std::vector<std::uint32_t> header(256);
  header[0] = magic;
  header[1] = version;
  header[2] = count;
  return raw(header);
}

inline std::string llmc_uint16(const std::vector<std::uint16_t>& tokens) {
  return llmc_header(20240520, 1, static_cast<std::uint32_t>(tokens.size())) + raw(tokens);
}

/// The numbers of a Megatron index, in the file's order.
struct MegatronParts {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  std::uint64_t version = 1;
  std::uint8_t type = 8;
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> offsets;
  std::vector<std::int64_t> documents;

  /// One document per sequence, one after the other, of tokens of `width` bytes.
  static MegatronParts of(std::vector<std::int32_t> lengths, std::int64_t width,
                          std::uint8_t type) {
    MegatronParts parts;
    parts.type = type;
    std::int64_t offset = 0;
    parts.documents.push_back(0);
    for (const std::int32_t length : lengths) {
      parts.offsets.push_back(offset);
      offset += length * width;
      parts.documents.push_back(static_cast<std::int64_t>(parts.offsets.size()));
    }
    parts.lengths = std::move(lengths);
    return parts;
  }

  [[nodiscard]] std::string bytes() const {
    return magic + raw(std::vector{version}) + static_cast<char>(type) +
           raw(std::vector{static_cast<std::uint64_t>(lengths.size()),
                           static_cast<std::uint64_t>(documents.size())}) +
           raw(lengths) + raw(offsets) + raw(documents);
  }
};

}  // namespace quadrille::data_test
