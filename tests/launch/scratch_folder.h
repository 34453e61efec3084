// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A folder of its own for each test, removed afterwards.

#include <stdlib.h>

#include <filesystem>
#include <string>

namespace quadrille::test {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "quadrille-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data()) == nullptr ? "" : pattern;
  }
  ~ScratchFolder() {
    std::error_code error;
    std::filesystem::remove_all(path_, error);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace quadrille::test
