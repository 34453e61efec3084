// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Saves that are killed, or that find no room: what was sound before stays sound.

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "checkpoint/sample_model.h"

namespace quadrille {
namespace {

using checkpoint_test::Folder;
using checkpoint_test::sample_state;
using checkpoint_test::SampleModel;
using checkpoint_test::save_now;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<SafetensorsTensor> one_tensor(std::int64_t elements) {
  return {{"weight", StoredType::kU8, {elements}, {}}};
}

/// Saves steps from `first` on, each twice and with its number as content, until it is killed.
[[noreturn]] void save_until_killed(const std::string& directory, std::int64_t first) {
  {
    SampleModel model;
    SaverOptions options = model.saver_options(directory);
    options.keep = 2;
    auto saver = CheckpointSaver::create(options, model.tensors());
    for (std::int64_t step = first; saver; ++step) {
      model.fill(static_cast<std::uint64_t>(step));
      if (!(*saver)->save(sample_state(step))) break;
      if (!(*saver)->save(sample_state(step))) break;  // replaces
      if (!(*saver)->wait_until_read()) break;
    }
  }
  _exit(1);
}

// In memory, because a kill loses nothing that was written, flushed or not, and more moments fit
// into the test.
TEST(Crash, AKillAtAnyMomentLeavesASoundNewestState) {
  const Folder folder(true);
  SampleModel model;
  const RandomStream random(5, RandomPurpose::kTest, 1);
  ASSERT_FALSE(save_now(model, folder.path(), 1, 1, 2).error.has_value());
  std::int64_t newest_step = 1;
  // Later rounds run longer, until a slow machine has finished a save as well.
  for (std::uint64_t round = 0; round < 25 || (newest_step == 1 && round < 500); ++round) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) save_until_killed(folder.path(), newest_step + 1);
    std::this_thread::sleep_for(
        std::chrono::microseconds(random.bits(round) % (2'000 * (round + 1))));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the writer ended by itself";

    const auto newest = find_newest_valid(folder.path());
    ASSERT_TRUE(newest.has_value()) << newest.error().to_text();
    ASSERT_TRUE(newest->checkpoint.has_value()) << "round " << round;
    EXPECT_TRUE(newest->skipped.empty()) << newest->skipped[0].damage->to_text();
    const std::int64_t step = newest->checkpoint->manifest().state.step;
    EXPECT_GE(step, newest_step) << "a committed checkpoint was lost";
    ASSERT_TRUE(load_all(*newest->checkpoint, model.stream(), model.tensors()).has_value());
    EXPECT_TRUE(model.holds(static_cast<std::uint64_t>(step)));
    newest_step = step;
  }
  EXPECT_GT(newest_step, 1) << "no save was ever finished";
}

TEST(Crash, AWriteThatFailsLeavesTheOlderOneWhole) {
  const Folder folder;
  SampleModel model(make_host_device(), one_tensor(300'000));
  ASSERT_FALSE(save_now(model, folder.path(), 1, 1).error.has_value());
  rlimit former{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &former), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100'000, former.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const SaveOutcome outcome = save_now(model, folder.path(), 2, 2);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &former), 0);
  ::signal(SIGXFSZ, handler);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_THAT(outcome.error->message, HasSubstr("cannot write"));
  EXPECT_THAT(list_folder(folder.path()).value(), ElementsAre("step-00000001"));
  EXPECT_TRUE(find_newest_valid(folder.path()).value().checkpoint.has_value());
}

/// A file system of 4 MiB for as long as it lives.
class SmallDisk {
 public:
  explicit SmallDisk(std::string path) : path_(std::move(path)) {
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, "size=4m") == 0;
  }
  ~SmallDisk() {
    if (!mounted_) return;
    EXPECT_EQ(::umount(path_.c_str()), 0);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  [[nodiscard]] bool mounted() const { return mounted_; }

 private:
  std::string path_;
  bool mounted_ = false;
};

TEST(FullDisk, ACheckpointThatDoesNotFitIsRefusedBeforeItIsWritten) {
  const Folder folder;
  const SmallDisk disk(folder.path());
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small file system is not allowed here";
  SampleModel model(make_host_device(), one_tensor(1'500'000));
  ASSERT_FALSE(save_now(model, folder.path(), 1, 1).error.has_value());
  ASSERT_FALSE(save_now(model, folder.path(), 2, 2).error.has_value());
  const SaveOutcome outcome = save_now(model, folder.path(), 3, 3, 1);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_EQ(outcome.error->code, Code::kExhausted);
  EXPECT_THAT(outcome.error->message, HasSubstr("needs"));
  EXPECT_THAT(list_folder(folder.path()).value(), ElementsAre("step-00000001", "step-00000002"));
}

TEST(FullDisk, ADiskThatFillsUpDuringTheSaveFailsTheSaveAlone) {
  const Folder folder;
  const SmallDisk disk(folder.path());
  if (!disk.mounted()) GTEST_SKIP() << "mounting a small file system is not allowed here";
  SampleModel small(make_host_device(), one_tensor(1'000'000));
  ASSERT_FALSE(save_now(small, folder.path(), 1, 1).error.has_value());
  // Two ranks whose shares fit one by one but not together; whoever comes last finds no room.
  const std::vector<SafetensorsTensor> forms = {{"a", StoredType::kU8, {1'700'000}, {}},
                                                {"b", StoredType::kU8, {1'700'000}, {}}};
  SampleModel zero(make_host_device(), forms);
  SampleModel one(make_host_device(), forms);
  SaverOptions options = zero.saver_options(folder.path());
  options.ranks = 2;
  auto first = CheckpointSaver::create(options, zero.tensors()).value();
  options.rank = Rank{1};
  options.stream = &one.stream();
  options.pool = &one.pool();
  auto second = CheckpointSaver::create(options, one.tensors()).value();
  ASSERT_TRUE(second->save(sample_state(2)).has_value());
  ASSERT_TRUE(first->save(sample_state(2)).has_value());
  const SaveOutcome outcome = first->wait().at(0);
  (void)second->wait();
  ASSERT_TRUE(outcome.error.has_value());
  const auto newest = find_newest_valid(folder.path());
  ASSERT_TRUE(newest.has_value() && newest->checkpoint.has_value());
  EXPECT_EQ(newest->checkpoint->manifest().state.step, 1);
  // And once there is room, saving works again.
  second.reset();
  first.reset();
  EXPECT_FALSE(save_now(small, folder.path(), 3, 3).error.has_value());
}

}  // namespace
}  // namespace quadrille
