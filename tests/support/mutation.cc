// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "support/mutation.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "quadrille/base/check.h"
#include "quadrille/base/file.h"

namespace quadrille::test {
namespace {

constexpr std::size_t kMostBytes = std::size_t{1} << 16;

// Numbers at which arithmetic breaks, as binary and as text.
constexpr std::array<std::uint64_t, 12> kBoundaries{
    0,          1,          0x7F,        0xFF,      0x7FFF,     0xFFFF,
    0x7FFFFFFF, 0xFFFFFFFF, 0x100000000, INT64_MAX, UINT64_MAX, std::uint64_t{1} << 62};
constexpr std::array<std::string_view, 12> kWords{"-1",
                                                  "0",
                                                  "9223372036854775807",
                                                  "-9223372036854775808",
                                                  "18446744073709551616",
                                                  "1e308",
                                                  "1e-400",
                                                  "null",
                                                  "\"auto\"",
                                                  "{}",
                                                  "[]",
                                                  "\"\xF0\x9F\x8E\xB6\\u0000\""};

class Mutator {
 public:
  Mutator(std::span<const std::string> corpus, RandomStream stream)
      : corpus_(corpus), stream_(stream), text_(seed()) {}

  std::string run() {
    const std::size_t changes = 1 + below(4);
    for (std::size_t i = 0; i < changes; ++i) change();
    if (text_.size() > kMostBytes) text_.resize(kMostBytes);
    return std::move(text_);
  }

 private:
  // Uniform enough below a small bound; 0 for an empty range.
  std::size_t below(std::size_t bound) { return bound == 0 ? 0 : stream_.bits(next_++) % bound; }
  char byte() { return static_cast<char>(below(256)); }
  const std::string& seed() { return corpus_[below(corpus_.size())]; }

  // A part of `text` of at most 64 bytes.
  std::pair<std::size_t, std::size_t> part(std::string_view text) {
    const std::size_t start = below(text.size());
    return {start, std::min(text.size() - start, 1 + below(64))};
  }

  void change() {
    if (text_.empty()) text_ = std::string(1, byte());
    switch (below(9)) {
      case 0:
        flip();
        break;
      case 1:
        text_[below(text_.size())] = byte();
        break;
      case 2:
        text_.insert(below(text_.size() + 1), 1, byte());
        break;
      case 3:
        remove();
        break;
      case 4:
        repeat();
        break;
      case 5:
        splice();
        break;
      case 6:
        replace_word();
        break;
      case 7:
        write_boundary();
        break;
      default:
        text_.resize(below(text_.size() + 1));
        break;
    }
  }

  void flip() {
    char& target = text_[below(text_.size())];
    target = static_cast<char>(static_cast<unsigned char>(target) ^ (1U << below(8)));
  }

  void remove() {
    const auto [start, length] = part(text_);
    text_.erase(start, length);
  }

  void repeat() {
    const auto [start, length] = part(text_);
    const std::string piece = text_.substr(start, length);
    const std::size_t times = below(50) == 0 ? 200 : 1 + below(3);
    std::string all;
    for (std::size_t i = 0; i < times; ++i) all += piece;
    text_.insert(start, all);
  }

  void splice() {
    const std::string& other = seed();
    if (other.empty()) return;
    const auto [start, length] = part(other);
    text_.insert(below(text_.size() + 1), other, start, length);
  }

  // A number or a word of a text becomes another one.
  void replace_word() {
    std::size_t start = below(text_.size());
    const auto in_word = [this](std::size_t i) {
      const char c = text_[i];
      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || c == '.' || c == '-' || c == '_';
    };
    while (start < text_.size() && !in_word(start)) ++start;
    std::size_t end = start;
    while (start > 0 && in_word(start - 1)) --start;
    while (end < text_.size() && in_word(end)) ++end;
    text_.replace(start, end - start, kWords[below(kWords.size())]);
  }

  void write_boundary() {
    const std::uint64_t number = kBoundaries[below(kBoundaries.size())];
    const std::size_t width = std::min(std::size_t{1} << below(4), text_.size());
    std::memcpy(text_.data() + below(text_.size() - width + 1), &number, width);
  }

  std::span<const std::string> corpus_;
  RandomStream stream_;
  std::uint64_t next_ = 0;
  std::string text_;
};

}  // namespace

Result<std::vector<std::string>> read_corpus(const std::string& folder) {
  QD_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(folder));
  std::vector<std::string> corpus;
  for (const std::string& name : names) {
    QD_ASSIGN_OR_RETURN(corpus.emplace_back(), read_text_file(folder + "/" + name));
  }
  return corpus;
}

std::string mutated(std::span<const std::string> corpus, std::uint64_t seed, std::uint64_t index) {
  QD_CHECK(!corpus.empty());
  return Mutator(corpus, RandomStream(seed, RandomPurpose::kTest, index)).run();
}

}  // namespace quadrille::test
