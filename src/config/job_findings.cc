// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/job_findings.h"

#include <algorithm>
#include <limits>

namespace quadrille::internal {

void JobFindings::locate(const std::string& path, Location location) {
  locations_.insert_or_assign(path, std::move(location));
}

Location JobFindings::nearest_location(std::string path) const {
  for (;;) {
    if (const auto found = locations_.find(path); found != locations_.end()) return found->second;
    if (path.empty()) return {};
    const std::size_t dot = path.rfind('.');
    path = dot == std::string::npos ? "" : path.substr(0, dot);
  }
}

void JobFindings::report(const std::string& path, std::string wrong, std::string right) {
  const Location location = nearest_location(path);
  reported_.insert(path);
  diagnostics_.push_back({location.file, location.line, path, std::move(wrong), std::move(right)});
}

bool JobFindings::sound(std::initializer_list<std::string_view> paths) const {
  return std::all_of(paths.begin(), paths.end(), [this](std::string_view path) {
    for (;;) {
      if (reported_.find(path) != reported_.end()) return false;
      const std::size_t dot = path.rfind('.');
      if (dot == std::string_view::npos) return true;
      path = path.substr(0, dot);
    }
  });
}

std::vector<Diagnostic> JobFindings::take() {
  const auto place = [](const Diagnostic& diagnostic) {
    return diagnostic.line > 0 ? diagnostic.line : std::numeric_limits<int>::max();
  };
  std::stable_sort(diagnostics_.begin(), diagnostics_.end(),
                   [&](const auto& a, const auto& b) { return place(a) < place(b); });
  return std::move(diagnostics_);
}

}  // namespace quadrille::internal
