// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launch/output_tail.h"

#include <sys/stat.h>

#include <algorithm>
#include <fstream>

#include "quadrille/base/text.h"

namespace quadrille::internal {
namespace {

/// Enough for any number of last lines that a person reads.
constexpr std::int64_t kTailBytes = 256 << 10;

struct TaggedLine {
  std::optional<int> rank;
  std::string text;
};

/// srun's " 2: text", the number padded with spaces to the widest, is rank 2's `text`.
TaggedLine unlabelled(const std::string& line) {
  const std::size_t first = line.find_first_not_of(' ');
  std::size_t at = first;
  int rank = 0;
  while (at < line.size() && at < first + 7 && line[at] >= '0' && line[at] <= '9') {
    rank = rank * 10 + (line[at++] - '0');
  }
  const bool is_label = first < line.size() && at > first && line.compare(at, 2, ": ") == 0;
  return is_label ? TaggedLine{rank, line.substr(at + 2)} : TaggedLine{std::nullopt, line};
}

/// "[1,2]<stderr>:text" (mpirun's) is rank 2's `text`; a line with no tag is nobody's.
TaggedLine untagged(const std::string& line) {
  constexpr std::string_view kStart = "[1,";
  if (line.compare(0, kStart.size(), kStart) != 0) return {std::nullopt, line};
  std::size_t at = kStart.size();
  int rank = 0;
  const std::size_t digits_end = std::min(line.size(), at + 9);
  while (at < digits_end && line[at] >= '0' && line[at] <= '9')
    rank = rank * 10 + (line[at++] - '0');
  if (at == kStart.size()) return {std::nullopt, line};
  for (const std::string_view end : {"]<stdout>:", "]<stderr>:"}) {
    if (line.compare(at, end.size(), end) == 0) return {rank, line.substr(at + end.size())};
  }
  return {std::nullopt, line};
}

std::vector<TaggedLine> read_tail(const TailQuestion& question) {
  const std::int64_t size = file_bytes(question.path);
  const std::int64_t start = std::max(question.from_byte, size - kTailBytes);
  if (start >= size) return {};
  std::ifstream file(question.path, std::ios::binary);
  file.seekg(start);
  std::string text(static_cast<std::size_t>(size - start), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  std::vector<std::string> lines = split(text, '\n');
  if (!lines.empty() && start > question.from_byte)
    lines.erase(lines.begin());  // cut in the middle
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  std::vector<TaggedLine> tagged;
  for (const std::string& line : lines) {
    tagged.push_back(question.by_srun ? unlabelled(line) : untagged(line));
  }
  return tagged;
}

}  // namespace

std::int64_t file_bytes(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<std::int64_t>(status.st_size) : 0;
}

std::vector<std::string> last_lines(const TailQuestion& question) {
  std::vector<TaggedLine> lines = read_tail(question);
  const bool any_tagged = std::any_of(lines.begin(), lines.end(),
                                      [](const TaggedLine& line) { return line.rank.has_value(); });
  if (question.rank && (any_tagged || question.only_tagged)) {
    const int wanted = question.rank->value;
    lines.erase(std::remove_if(lines.begin(), lines.end(),
                               [wanted](const TaggedLine& line) { return line.rank != wanted; }),
                lines.end());
  }
  std::vector<std::string> texts;
  const std::size_t skipped = lines.size() - std::min(lines.size(), question.most);
  for (std::size_t i = skipped; i < lines.size(); ++i) texts.push_back(std::move(lines[i].text));
  return texts;
}

}  // namespace quadrille::internal
