// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "config/job_paths.h"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "quadrille/base/file.h"

namespace quadrille::internal {

std::string absolute_path(const std::string& folder, const std::string& path) {
  const std::filesystem::path joined = std::filesystem::path(folder) / path;
  std::error_code code;
  const std::filesystem::path absolute = std::filesystem::absolute(joined, code);
  return (code ? joined : absolute).lexically_normal().string();
}

bool is_glob(const std::string& path) {
  return path.find_first_of("*?[") != std::string::npos && !path_exists(path);
}

std::vector<std::string> expand_glob(const std::string& pattern) {
  std::vector<std::string> matches;
  glob_t found{};
  // GLOB_MARK ends folders with a slash; the order of the locale is replaced below.
  if (::glob(pattern.c_str(), GLOB_MARK | GLOB_NOSORT, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) {
      std::string match = found.gl_pathv[i];
      if (!match.ends_with('/')) matches.push_back(std::move(match));
    }
  }
  globfree(&found);
  std::sort(matches.begin(), matches.end());
  return matches;
}

}  // namespace quadrille::internal
