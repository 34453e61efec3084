// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/event_follower.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <optional>

#include "quadrille/base/json.h"

namespace quadrille::launcher {
namespace {

std::optional<std::string> warning_of(const std::string& line) {
  // Most lines are of other kinds: those are not parsed.
  const bool failed = line.find("\"checkpoint_failed\"") != std::string::npos;
  const bool skipped = line.find("\"checkpoint_skipped\"") != std::string::npos;
  if (!failed && !skipped) return std::nullopt;
  const auto row = parse_json(line, {});
  if (!row) return std::nullopt;
  const std::string path = row->string_or("path", "?");
  return failed ? fmt::format("{} could not be saved: {}", path, row->string_or("error", "?"))
                : fmt::format("skipped {}: {}", path, row->string_or("reason", "?"));
}

}  // namespace

EventFollower::EventFollower(std::string path) : path_(std::move(path)) {
  std::ifstream file(path_, std::ios::ate);
  if (file) offset_ = file.tellg();
}

std::vector<std::string> EventFollower::poll() {
  std::vector<std::string> warnings;
  std::ifstream file(path_, std::ios::ate);
  if (!file) return warnings;
  offset_ = std::min<std::streamoff>(offset_, file.tellg());  // a torn last line has been cut off
  file.seekg(offset_);
  std::string line;
  while (std::getline(file, line) && !file.eof()) {  // a line without its end is read later
    offset_ += static_cast<std::streamoff>(line.size()) + 1;
    if (auto warning = warning_of(line)) warnings.push_back(std::move(*warning));
  }
  return warnings;
}

}  // namespace quadrille::launcher
