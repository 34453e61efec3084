// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/follower.h"

#include <filesystem>
#include <fstream>
#include <iterator>

#include "quadrille/base/json.h"

namespace quadrille::launcher {

std::vector<StepRecord> MetricsFollower::poll() {
  std::vector<StepRecord> rows;
  std::error_code error;
  const auto size = std::filesystem::file_size(path_, error);
  if (error) return rows;
  if (size < offset_) offset_ = 0;
  if (size == offset_) return rows;
  std::ifstream file(path_, std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset_));
  const std::string text(std::istreambuf_iterator<char>(file), {});
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    const auto row = parse_json(text.substr(begin, end - begin), {.file = path_});
    begin = end + 1;
    if (!row) continue;
    if (auto record = step_record_from(*row); record && record->step > last_step_) {
      last_step_ = record->step;
      rows.push_back(std::move(*record));
    }
  }
  offset_ += begin;
  return rows;
}

}  // namespace quadrille::launcher
