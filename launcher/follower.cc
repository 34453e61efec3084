// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/follower.h"

#include <sys/stat.h>

#include <fstream>
#include <iterator>

#include "quadrille/base/json.h"

namespace quadrille::launcher {
namespace {

bool is_same_row(const StepRecord& a, const StepRecord& b) {
  return a.step == b.step && a.loss == b.loss && a.seconds == b.seconds;
}

}  // namespace

std::size_t MetricsFollower::poll() {
  struct stat status {};
  if (::stat(path_.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return 0;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (status.st_ino == inode_ && size == offset_) return 0;
  if (status.st_ino == inode_ && size > offset_) return read_from_offset();
  // Another file, or a shorter one: rows before the cut are known already.
  inode_ = status.st_ino;
  offset_ = 0;
  const std::vector<StepRecord> known = std::exchange(rows_, {});
  read_from_offset();
  std::size_t kept = 0;
  while (kept < known.size() && kept < rows_.size() && is_same_row(known[kept], rows_[kept]))
    ++kept;
  return rows_.size() - kept;
}

std::size_t MetricsFollower::read_from_offset() {
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset_));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  const std::size_t before = rows_.size();
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const auto row = parse_json(text.substr(begin, end - begin), {.file = path_});
    begin = end + 1;
    if (!row) continue;
    if (auto record = step_record_from(*row)) rows_.push_back(std::move(*record));
  }
  offset_ += begin;
  return rows_.size() - before;
}

}  // namespace quadrille::launcher
