// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Damage to a checkpoint's files is found, named, and never hides an older sound checkpoint.

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>

#include "checkpoint/sample_model.h"

namespace quadrille {
namespace {

using checkpoint_test::Folder;
using checkpoint_test::sample_state;
using checkpoint_test::SampleModel;
using checkpoint_test::save_now;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* kShard = "shard-00000-of-00001.safetensors";

/// Steps 1 and 2; tests damage the second.
class Damage : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_FALSE(save_now(model_, folder_.path(), 1, 1).error.has_value());
    ASSERT_FALSE(save_now(model_, folder_.path(), 2, 2).error.has_value());
  }
  [[nodiscard]] std::string file(const std::string& name) const {
    return folder_.path("step-00000002/" + name);
  }
  /// The error of a full check of step 2, or nothing.
  [[nodiscard]] std::optional<Error> damage() const {
    const auto opened = Checkpoint::open(folder_.path("step-00000002"));
    if (!opened) return opened.error();
    const auto verified = opened->verify();
    if (!verified) return verified.error();
    return std::nullopt;
  }
  static void put(const std::string& path, const std::string& text) {
    std::FILE* out = std::fopen(path.c_str(), "wb");
    ASSERT_NE(out, nullptr);
    EXPECT_EQ(std::fwrite(text.data(), 1, text.size(), out), text.size());
    std::fclose(out);
  }

  Folder folder_{true};
  SampleModel model_;
};

TEST_F(Damage, AFlippedBitAnywhereIsFound) {
  ASSERT_EQ(damage(), std::nullopt);
  for (const std::string name : {"manifest.json", kShard}) {
    const std::string text = read_text_file(file(name)).value();
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::string flipped = text;
      flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
      put(file(name), flipped);
      const auto found = damage();
      ASSERT_TRUE(found.has_value()) << name << " byte " << i;
      EXPECT_THAT(found->message, HasSubstr(name)) << i;
    }
    put(file(name), text);
    ASSERT_EQ(damage(), std::nullopt);
  }
}

TEST_F(Damage, ATruncatedFileIsFound) {
  for (const std::string name : {"manifest.json", kShard}) {
    const std::string text = read_text_file(file(name)).value();
    for (std::size_t length = 0; length < text.size(); length += 13) {
      ASSERT_EQ(::truncate(file(name).c_str(), static_cast<off_t>(length)), 0);
      EXPECT_TRUE(damage().has_value()) << name << " cut to " << length;
      put(file(name), text);
    }
  }
}

TEST_F(Damage, AMissingFileIsNamed) {
  ASSERT_TRUE(remove_tree(file(kShard)).has_value());
  EXPECT_THAT(damage().value().message, AllOf(HasSubstr(kShard), HasSubstr("missing")));
  ASSERT_TRUE(remove_tree(file("manifest.json")).has_value());
  EXPECT_THAT(damage().value().message, HasSubstr("no manifest.json"));
}

TEST_F(Damage, AShardOfAnotherStepIsFound) {
  put(file(kShard), read_text_file(folder_.path("step-00000001/" + std::string(kShard))).value());
  const auto found = damage();
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->code, Code::kCorrupt);
}

TEST_F(Damage, AFolderUnderAnotherStepsNameIsFound) {
  ASSERT_TRUE(
      rename_durably(folder_.path("step-00000002"), folder_.path("step-00000003")).has_value());
  const auto opened = Checkpoint::open(folder_.path("step-00000003"));
  ASSERT_FALSE(opened.has_value());
  EXPECT_THAT(opened.error().message, HasSubstr("step 2"));
}

TEST_F(Damage, TheNewestSoundCheckpointIsUsedAndTheDamagedOneStays) {
  // Damage that only reading every byte finds.
  std::string text = read_text_file(file(kShard)).value();
  text.back() = static_cast<char>(text.back() ^ 1);
  put(file(kShard), text);
  const auto newest = find_newest_valid(folder_.path());
  ASSERT_TRUE(newest.has_value());
  ASSERT_TRUE(newest->checkpoint.has_value());
  EXPECT_EQ(newest->checkpoint->manifest().state.step, 1);
  ASSERT_EQ(newest->skipped.size(), 1u);
  EXPECT_EQ(newest->skipped[0].step, 2);
  EXPECT_THAT(newest->skipped[0].damage->message,
              AllOf(HasSubstr(kShard), HasSubstr("ln_f.weight")));
  EXPECT_EQ(read_text_file(file(kShard)).value(), text);

  const auto loaded = Checkpoint::open(folder_.path("step-00000002")).value();
  EXPECT_EQ(load_all(loaded, model_.stream(), model_.tensors()).error().code, Code::kCorrupt);
}

TEST_F(Damage, ListingShowsWhatIsWrong) {
  put(file("manifest.json"), "{}");
  const auto listings = list_checkpoints(folder_.path());
  ASSERT_TRUE(listings.has_value());
  ASSERT_EQ(listings->size(), 2u);
  EXPECT_EQ((*listings)[0].step, 1);
  EXPECT_EQ((*listings)[0].damage, std::nullopt);
  EXPECT_GT((*listings)[0].bytes, Bytes(0));
  EXPECT_TRUE((*listings)[1].damage.has_value());
}

TEST_F(Damage, ResolvingSaysWhatIsThere) {
  EXPECT_EQ(resolve_checkpoint(folder_.path()).value().manifest().state.step, 2);
  EXPECT_EQ(resolve_checkpoint(folder_.path("step-00000001/")).value().manifest().state.step, 1);
  for (const std::string step : {"step-00000001", "step-00000002"}) {
    put(folder_.path(step + "/manifest.json"), "{}");
  }
  const auto damaged = resolve_checkpoint(folder_.path());
  ASSERT_FALSE(damaged.has_value());
  EXPECT_EQ(damaged.error().code, Code::kCorrupt);
  EXPECT_THAT(damaged.error().message,
              AllOf(HasSubstr("step-00000001"), HasSubstr("step-00000002")));

  const Folder empty;
  EXPECT_EQ(resolve_checkpoint(empty.path()).error().code, Code::kNotFound);
  EXPECT_EQ(resolve_checkpoint(empty.path("absent")).error().code, Code::kNotFound);
}

TEST_F(Damage, ARunDirectoryLeadsToItsCheckpoints) {
  const Folder run;
  std::filesystem::copy(folder_.path(), run.path("checkpoints"),
                        std::filesystem::copy_options::recursive);
  EXPECT_EQ(resolve_checkpoint(run.path()).value().manifest().state.step, 2);

  const Folder elsewhere;  // a run whose job names another directory
  Json checkpoint = Json::object();
  checkpoint.set("directory", folder_.path());
  Json job = Json::object();
  job.set("checkpoint", checkpoint);
  Json file = Json::object();
  file.set("job", job);
  put(elsewhere.path("job.json"), write_json(file));
  EXPECT_EQ(resolve_checkpoint(elsewhere.path()).value().manifest().state.step, 2);
}

TEST_F(Damage, TensorsOfAnotherModelAreNamed) {
  const auto checkpoint = Checkpoint::open(folder_.path("step-00000002")).value();
  std::vector<CheckpointTensor> tensors = model_.tensors();
  tensors[0].name = "other.weight";
  const auto loaded = load_all(checkpoint, model_.stream(), tensors);
  ASSERT_FALSE(loaded.has_value());
  EXPECT_EQ(loaded.error().code, Code::kInvalid);
  EXPECT_THAT(loaded.error().message,
              AllOf(HasSubstr("lacks other.weight"), HasSubstr("also has wte.weight")));

  const TensorView& wte = model_.tensors()[0].view;
  const auto reshaped = checkpoint.load("wte.weight", model_.stream(), wte.reshape({8, 17}));
  ASSERT_FALSE(reshaped.has_value());
  EXPECT_THAT(reshaped.error().message, AllOf(HasSubstr("[17, 8]"), HasSubstr("[8, 17]")));
}

TEST(Manifest, RefusesNamesThatLeadOutOfItsFolder) {
  for (const std::string name : {"../x", "/etc/passwd", "", ".", "..", "a/b"}) {
    Manifest manifest;
    manifest.state = sample_state(1);
    manifest.shards.push_back({name, Bytes(1), "x"});
    const auto parsed = parse_manifest(write_manifest(manifest), "m");
    ASSERT_FALSE(parsed.has_value()) << name;
    EXPECT_EQ(parsed.error().code, Code::kCorrupt);
  }
}

TEST(Manifest, ReadsBackWhatItWrites) {
  Manifest manifest;
  manifest.state = sample_state(std::int64_t{1} << 40);
  manifest.created = "2026-12-01T00:00:00.000Z";
  manifest.shards.push_back({"shard-0", Bytes(std::int64_t{1} << 41), "0123"});
  manifest.tensors.push_back(
      {"a \"b\"\n", DType::kI32, {3, 4}, {ManifestPart{{0, 12}, "shard-0", "cafe"}}});
  const std::string text = write_manifest(manifest);
  const auto parsed = parse_manifest(text, "m");
  ASSERT_TRUE(parsed.has_value()) << parsed.error().to_text();
  EXPECT_EQ(write_manifest(*parsed), text);
}

TEST_F(Damage, AFileThatCannotBeReadIsAnErrorAndNotPassedOver) {
  const std::string manifest = folder_.path("step-00000002/manifest.json");
  ASSERT_TRUE(remove_tree(manifest).has_value());
  ASSERT_TRUE(make_folders(manifest).has_value());  // opens, but every read of it fails
  const auto newest = find_newest_valid(folder_.path());
  ASSERT_FALSE(newest.has_value());
  EXPECT_THAT(newest.error().message, AllOf(HasSubstr("step-00000002"), HasSubstr("cannot read")));
}

}  // namespace
}  // namespace quadrille
