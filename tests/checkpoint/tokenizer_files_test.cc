// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tokenizer_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "checkpoint/hugging_face_fixture.h"
#include "quadrille/base/file.h"

namespace quadrille {
namespace {

using checkpoint_test::ScratchFolder;
using internal::copy_tokenizer_files;
using internal::tokenizer_folders;
using internal::tokenizer_in;
using ::testing::ElementsAre;

class TokenizerFiles : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = scratch_.path(name);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] std::string path(const std::string& name) const { return scratch_.path(name); }
  [[nodiscard]] Result<std::vector<std::string>> copy(const std::string& tokenizer) const {
    std::filesystem::create_directories(path("out"));
    return copy_tokenizer_files(tokenizer_folders(path("run/step-00000003/"), tokenizer),
                                path("out"));
  }

  ScratchFolder scratch_;
};

TEST_F(TokenizerFiles, AFolderHasATokenizerOrReadsBytes) {
  write("one/tokenizer.json", "");
  write("pair/vocab.json", "");
  EXPECT_EQ(tokenizer_in(path("one")), path("one"));
  EXPECT_EQ(tokenizer_in(path("pair")), "bytes") << "half a tokenizer is none";
  write("pair/merges.txt", "");
  EXPECT_EQ(tokenizer_in(path("pair")), path("pair"));
  EXPECT_TRUE(copy("bytes").value().empty());
}

TEST_F(TokenizerFiles, TheRunsCopyCountsBeforeTheOriginWhichMayHaveMore) {
  write("origin/tokenizer.json", "changed since");
  write("origin/tokenizer_config.json", "settings");
  write("origin/model.safetensors", "not its own");
  write("run/tokenizer/tokenizer.json", "as trained");
  for (const std::string& named : {path("origin"), path("origin/tokenizer.json")}) {
    const auto copied = copy(named);
    ASSERT_TRUE(copied.has_value()) << copied.error().to_text();
    EXPECT_THAT(*copied, ElementsAre("tokenizer.json", "tokenizer_config.json"));
    EXPECT_EQ(read_text_file(path("out/tokenizer.json")).value(), "as trained");
    EXPECT_EQ(read_text_file(path("out/tokenizer_config.json")).value(), "settings");
  }
}

TEST_F(TokenizerFiles, WhatIsGoneIsAnError) {
  const auto copied = copy(path("gone"));
  ASSERT_FALSE(copied.has_value());
  EXPECT_EQ(copied.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace quadrille
