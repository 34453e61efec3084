// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <thread>

#include "quadrille/base/log.h"
#include "quadrille/base/text.h"

namespace quadrille {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class File : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "quadrille-file-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    folder_ = pattern;
  }
  void TearDown() override { EXPECT_TRUE(remove_tree(folder_).has_value()); }
  [[nodiscard]] std::string at(const std::string& name) const { return folder_ + "/" + name; }

  std::string folder_;
};

TEST_F(File, AtomicWriteReplacesTheWholeAndLeavesNoNeighbour) {
  ASSERT_TRUE(write_file_atomically(at("a"), "first, and longer"));
  ASSERT_TRUE(write_file_atomically(at("a"), "second"));
  EXPECT_EQ(read_text_file(at("a")).value(), "second");
  EXPECT_THAT(list_folder(folder_).value(), ElementsAre("a"));
}

TEST_F(File, AtomicWriteThatFailsLeavesTheOldContent) {
  // A folder cannot be replaced by a file, so the rename, the last step, fails.
  ASSERT_TRUE(make_folders(at("target/inside")));
  EXPECT_FALSE(write_file_atomically(at("target"), "x"));
  EXPECT_THAT(list_folder(folder_).value(), ElementsAre("target"));
  EXPECT_EQ(write_file_atomically(at("absent/a"), "x").error().code, Code::kNotFound);
}

TEST_F(File, AFullDeviceIsExhausted) {
  if (!path_exists("/dev/full")) GTEST_SKIP() << "no /dev/full here";
  auto file = AppendFile::open("/dev/full");
  ASSERT_TRUE(file.has_value());
  const auto written = file->append_line("x");
  ASSERT_FALSE(written.has_value());
  EXPECT_EQ(written.error().code, Code::kExhausted);
  EXPECT_THAT(written.error().message, HasSubstr("/dev/full"));
}

TEST_F(File, MapsWhatWasWritten) {
  ASSERT_TRUE(write_file_atomically(at("a"), "mapped bytes"));
  auto first = MappedFile::open(at("a"));
  ASSERT_TRUE(first.has_value());
  const std::byte* address = first->bytes().data();
  const MappedFile second = std::move(*first);
  EXPECT_EQ(second.bytes().data(), address);
  EXPECT_EQ(std::memcmp(second.bytes().data(), "mapped bytes", 12), 0);
  EXPECT_EQ(second.bytes().size(), 12U);
}

TEST_F(File, MapsAnEmptyFileAsNothingAndRefusesAFolder) {
  ASSERT_TRUE(write_file_atomically(at("empty"), ""));
  EXPECT_TRUE(MappedFile::open(at("empty")).value().bytes().empty());
  EXPECT_EQ(MappedFile::open(folder_).error().code, Code::kInvalid);
  const auto absent = MappedFile::open(at("absent"));
  EXPECT_EQ(absent.error().code, Code::kNotFound);
  EXPECT_THAT(absent.error().message, HasSubstr(at("absent")));
}

TEST_F(File, FoldersAreMadeWithParentsAndMayExist) {
  ASSERT_TRUE(make_folders(at("x/y/z")));
  ASSERT_TRUE(make_folders(at("x/y/z")));
  ASSERT_TRUE(write_file_atomically(at("file"), ""));
  EXPECT_FALSE(make_folders(at("file")));
  EXPECT_FALSE(make_folders(at("file/below")));
}

TEST_F(File, ListsNamesInOrder) {
  for (const char* name : {"b", "a", ".hidden"}) ASSERT_TRUE(write_file_atomically(at(name), ""));
  EXPECT_THAT(list_folder(folder_).value(), ElementsAre(".hidden", "a", "b"));
  EXPECT_EQ(list_folder(at("absent")).error().code, Code::kNotFound);
}

TEST_F(File, RenamesAndRemovesTrees) {
  ASSERT_TRUE(make_folders(at("from/deep")));
  ASSERT_TRUE(rename_durably(at("from"), at("to")));
  EXPECT_TRUE(path_exists(at("to/deep")));
  ASSERT_TRUE(remove_tree(at("to")));
  EXPECT_FALSE(path_exists(at("to")));
  EXPECT_TRUE(remove_tree(at("to")));
  EXPECT_FALSE(rename_durably(at("from"), at("to")));
}

TEST_F(File, KnowsFreeSpace) {
  EXPECT_GE(free_space(folder_).value(), Bytes(0));
  EXPECT_EQ(free_space(at("absent")).error().code, Code::kNotFound);
}

TEST_F(File, AppendedLinesOfSeveralThreadsStayWhole) {
  constexpr int kThreads = 4, kLines = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      auto file = AppendFile::open(at("log"));
      for (int i = 0; file && i < kLines; ++i) {
        (void)file->append_line(std::string(50, static_cast<char>('a' + t)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto lines = split(read_text_file(at("log")).value(), '\n');
  ASSERT_EQ(lines.size(), kThreads * kLines + 1U);
  for (std::size_t i = 0; i + 1 < lines.size(); ++i) {
    ASSERT_EQ(lines[i].size(), 50U);
    EXPECT_EQ(lines[i], std::string(50, lines[i][0]));
  }
}

TEST_F(File, LogWritesLevelTimeAndTextAndDropsWhatIsBelow) {
  auto log = Logger::to_file(at("rank.log"), LogLevel::kInfo);
  ASSERT_TRUE(log.has_value());
  log->write(LogLevel::kDebug, "unseen");
  log->warning("slow\nvery");
  Logger::nowhere().error("dropped");
  const std::string text = read_text_file(at("rank.log")).value();
  EXPECT_THAT(text, HasSubstr("Z warning slow\n  | very\n"));
  EXPECT_EQ(text.find("unseen"), std::string::npos);
}

}  // namespace
}  // namespace quadrille
