// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "data/parallel_encoder.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

bool is_visible(char c) { return c > ' ' && c < 0x7F; }

std::vector<TextPart> cut(std::string_view text, std::size_t parts) {
  std::vector<TextPart> cuts;
  std::size_t begin = 0;
  for (std::size_t i = 1; i <= parts && begin < text.size(); ++i) {
    const std::size_t about = std::max(begin + 1, text.size() / parts * i);
    const std::size_t end = i == parts ? text.size() : next_space_between_words(text, about);
    cuts.push_back({.text = text.substr(begin, end - begin), .first = begin == 0, .last = false});
    begin = end;
  }
  if (!cuts.empty()) cuts.back().last = true;
  return cuts;
}

}  // namespace

std::size_t next_space_between_words(std::string_view text, std::size_t from) {
  for (std::size_t i = std::max<std::size_t>(from, 1); i + 1 < text.size(); ++i) {
    if (text[i] == ' ' && is_visible(text[i - 1]) && is_visible(text[i + 1])) {
      return i;
    }
  }
  return text.size();
}

Result<EncodedFront> encode_in_parallel(
    std::string_view text, int threads,
    const std::function<Result<EncodedFront>(const TextPart&)>& encode) {
  const std::size_t useful = text.size() / kBytesAThread;
  const std::vector<TextPart> parts =
      cut(text, std::min(static_cast<std::size_t>(std::max(threads, 1)), useful));
  if (parts.size() <= 1) return encode({.text = text});
  std::vector<Result<EncodedFront>> fronts(parts.size());
  std::vector<std::thread> workers;
  for (std::size_t i = 1; i < parts.size(); ++i) {
    workers.emplace_back([&, i] { fronts[i] = encode(parts[i]); });
  }
  fronts[0] = encode(parts[0]);
  for (std::thread& worker : workers) worker.join();
  EncodedFront all;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    QD_RETURN_IF_ERROR(fronts[i]);
    QD_CHECK(parts[i].last || fronts[i]->bytes == parts[i].text.size());
    all.ids.insert(all.ids.end(), fronts[i]->ids.begin(), fronts[i]->ids.end());
    all.bytes += fronts[i]->bytes;
  }
  return all;
}

}  // namespace quadrille::internal
