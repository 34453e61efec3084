// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small corpora for the tests of this room.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <string>
#include <vector>

#include "quadrille/base/file.h"
#include "quadrille/base/random.h"
#include "quadrille/config/job_spec.h"

namespace quadrille::data_test {

/// A folder that is removed with what is in it.
class Folder {
 public:
  Folder() {
    std::string name = ::testing::TempDir() + "quadrille-data-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    path_ = name;
  }
  ~Folder() { EXPECT_TRUE(remove_tree(path_).has_value()); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] std::string path(const std::string& name) const { return path_ + "/" + name; }
  [[nodiscard]] std::string write(const std::string& name, std::string_view content) const {
    EXPECT_TRUE(write_file_atomically(path(name), content).has_value());
    return path(name);
  }

 private:
  std::string path_;
};

/// All byte values, in no order that a wrong offset could repeat.
inline std::string varied_text(std::size_t length) {
  const RandomStream random(7, RandomPurpose::kTest, length);
  std::string text;
  for (std::size_t i = 0; i < length; ++i) text += static_cast<char>(random.bits(i));
  return text;
}

inline JobSpec corpus_job(std::vector<std::string> train, std::int64_t sequence,
                          std::int64_t global_batch) {
  JobSpec job;
  job.model.vocab = 256;
  job.data.train = std::move(train);
  job.training.sequence = sequence;
  job.training.global_batch = global_batch;
  return job;
}

}  // namespace quadrille::data_test
