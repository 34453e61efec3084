// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Sharded tensors: what ranks save in parts is one logical checkpoint that any other cut loads.

#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <thread>

#include "checkpoint/sample_model.h"
#include "quadrille/mesh/flat_layout.h"
#include "support/guarded_device.h"

namespace quadrille {
namespace {

using checkpoint_test::Folder;
using checkpoint_test::sample_bytes;
using checkpoint_test::sample_state;
using checkpoint_test::SampleModel;
using checkpoint_test::save_now;
using ::testing::HasSubstr;

/// Odd sizes, one of them smaller than most groups.
std::vector<SafetensorsTensor> float_forms() {
  return {{"wte.weight", StoredType::kF32, {37, 9}, {}},
          {"h.0.bias", StoredType::kF32, {2}, {}},
          {"h.1.weight", StoredType::kF32, {2, 3, 4}, {}},
          {"ln_f.weight", StoredType::kF32, {8}, {}}};
}

/// One rank's slices of all tensors, with the content that a whole model has.
class ShardedModel {
 public:
  ShardedModel(int rank, int ranks, Bytes bucket,
               std::unique_ptr<Device> device = make_host_device())
      : device_(std::move(device)), forms_(float_forms()) {
    pool_ = Pool::create({device_.get(), Bytes(0), "test"}).value();
    stream_ = device_->make_stream();
    std::vector<FlatTensor> tensors;
    for (const auto& form : forms_) tensors.push_back({form.shape.elements(), 0, 1});
    const FlatLayout layout(tensors, {bucket, 1});
    for (const auto& form : forms_) {
      tensors_.push_back({form.name, TensorView(), TensorPart{form.shape, 0}});
    }
    for (const FlatPiece& piece : layout.pieces(rank, ranks)) {
      leases_.push_back(
          pool_->lease(Bytes(piece.of_tensor.length * 4), MemoryTag::kOptimizer, "").value());
      CheckpointTensor& tensor = tensors_[static_cast<std::size_t>(piece.tensor)];
      tensor.part->first = piece.of_tensor.first;
      tensor.view = leases_.back().view(DType::kF32, {piece.of_tensor.length});
    }
  }
  ~ShardedModel() { EXPECT_TRUE(stream_->synchronize().has_value()); }

  void fill(std::uint64_t seed) {
    for (std::size_t i = 0; i < forms_.size(); ++i) {
      if (!tensors_[i].view.empty()) stream_->upload(expected(i, seed), tensors_[i].view);
    }
  }
  [[nodiscard]] bool holds(std::uint64_t seed) {
    bool equal = true;
    for (std::size_t i = 0; i < forms_.size(); ++i) {
      if (tensors_[i].view.empty()) continue;
      const auto right = expected(i, seed);
      std::vector<std::byte> bytes(right.size());
      stream_->download(tensors_[i].view, bytes);
      EXPECT_TRUE(stream_->synchronize().has_value());
      equal = equal && bytes == right;
    }
    return equal;
  }
  [[nodiscard]] SaverOptions saver_options(const std::string& directory, int rank, int ranks) {
    SaverOptions options;
    options.directory = directory;
    options.stream = stream_.get();
    options.pool = pool_.get();
    options.timeout = Seconds(20);
    options.rank = Rank{rank};
    options.ranks = ranks;
    return options;
  }
  [[nodiscard]] const std::vector<CheckpointTensor>& tensors() const { return tensors_; }
  [[nodiscard]] Stream& stream() { return *stream_; }

 private:
  [[nodiscard]] std::vector<std::byte> expected(std::size_t tensor, std::uint64_t seed) const {
    const auto whole = sample_bytes(forms_[tensor], seed);
    const auto begin = whole.begin() + tensors_[tensor].part->first * 4;
    return {begin, begin + tensors_[tensor].view.bytes().count()};
  }

  std::unique_ptr<Device> device_;
  std::vector<SafetensorsTensor> forms_;
  std::unique_ptr<Pool> pool_;
  std::unique_ptr<Stream> stream_;
  std::vector<Lease> leases_;
  std::vector<CheckpointTensor> tensors_;
};

/// Rank 0's outcome of saving `seed` in the parts of `ranks` ranks.
SaveOutcome save_sharded(const std::string& directory, int ranks, Bytes bucket,
                         std::uint64_t seed) {
  std::vector<std::unique_ptr<ShardedModel>> models;
  std::vector<std::unique_ptr<CheckpointSaver>> savers;
  for (int rank = 0; rank < ranks; ++rank) {
    models.push_back(std::make_unique<ShardedModel>(rank, ranks, bucket));
    models.back()->fill(seed);
    savers.push_back(CheckpointSaver::create(models.back()->saver_options(directory, rank, ranks),
                                             models.back()->tensors())
                         .value());
  }
  for (const auto& saver : savers) EXPECT_TRUE(saver->save(sample_state(4)).has_value());
  std::vector<SaveOutcome> outcomes = savers[0]->wait();
  savers.clear();
  return outcomes.at(0);
}

TEST(Parts, OfAnyCutLoadWholeAndInAnyOtherCut) {
  for (const int ranks : {1, 2, 3, 6}) {
    for (const Bytes bucket : {Bytes(1), 4_MiB}) {
      const Folder folder;
      const SaveOutcome outcome = save_sharded(folder.path(), ranks, bucket, 5);
      ASSERT_FALSE(outcome.error.has_value()) << outcome.error->to_text();
      const auto checkpoint = Checkpoint::open(outcome.path);
      ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().to_text();
      EXPECT_TRUE(checkpoint->verify().has_value());

      SampleModel whole(make_host_device(), float_forms());
      ASSERT_TRUE(load_all(*checkpoint, whole.stream(), whole.tensors()).has_value());
      EXPECT_TRUE(whole.holds(5));

      for (const int others : {2, 3, 4}) {
        for (int rank = 0; rank < others; ++rank) {
          ShardedModel model(rank, others, Bytes(64), testing::make_guarded_device());
          ASSERT_TRUE(load_all(*checkpoint, model.stream(), model.tensors()).has_value());
          EXPECT_TRUE(model.holds(5)) << ranks << " to rank " << rank << " of " << others;
        }
      }
    }
  }
}

TEST(Parts, AreEqualToTheWholeForDiffAndDifferWhereItDiffers) {
  const Folder cut;
  const Folder alone;
  ASSERT_FALSE(save_sharded(cut.path(), 3, Bytes(256), 5).error.has_value());
  SampleModel whole(make_host_device(), float_forms());
  ASSERT_FALSE(save_now(whole, alone.path(), 4, 5).error.has_value());
  const auto a = resolve_checkpoint(cut.path());
  ASSERT_TRUE(a.has_value()) << a.error().to_text();
  const auto equal = diff_checkpoints(*a, resolve_checkpoint(alone.path()).value());
  ASSERT_TRUE(equal.has_value()) << equal.error().to_text();
  EXPECT_EQ(*equal, std::nullopt) << **equal;
  ASSERT_FALSE(save_now(whole, alone.path(), 4, 6).error.has_value());
  const auto other = diff_checkpoints(*a, resolve_checkpoint(alone.path()).value());
  ASSERT_TRUE(other.has_value());
  EXPECT_NE(*other, std::nullopt);
}

TEST(Parts, ARankWritesOnlyWhatItHas) {
  const Folder folder;
  const SaveOutcome outcome = save_sharded(folder.path(), 3, 4_MiB, 5);
  ASSERT_FALSE(outcome.error.has_value());
  const auto shard =
      SafetensorsFile::open(outcome.path + "/shard-00001-of-00003.safetensors").value();
  ShardedModel model(1, 3, 4_MiB);
  std::vector<std::string> expected;
  for (const CheckpointTensor& tensor : model.tensors()) {
    if (tensor.view.empty()) continue;
    const bool all = tensor.view.elements() == tensor.part->shape.elements();
    const std::int64_t first = tensor.part->first;
    expected.push_back(all ? tensor.name
                           : tensor.name + "[" + std::to_string(first) + ":" +
                                 std::to_string(first + tensor.view.elements()) + "]");
  }
  std::vector<std::string> names;
  for (const SafetensorsTensor& tensor : shard.header().tensors) names.push_back(tensor.name);
  EXPECT_EQ(names, expected);
}

TEST(Parts, ADamagedPartIsFoundByWhoeverNeedsAByteOfIt) {
  const Folder folder;
  const SaveOutcome outcome = save_sharded(folder.path(), 2, 4_MiB, 5);
  ASSERT_FALSE(outcome.error.has_value());
  const std::string path = outcome.path + "/shard-00001-of-00002.safetensors";
  std::string text = read_text_file(path).value();
  text.back() = static_cast<char>(text.back() ^ 1);
  ASSERT_TRUE(write_file_atomically(path, text).has_value());
  const auto checkpoint = Checkpoint::open(outcome.path);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().to_text();
  const auto verified = checkpoint->verify();
  ASSERT_FALSE(verified.has_value());
  EXPECT_EQ(verified.error().code, Code::kCorrupt);
  EXPECT_THAT(verified.error().message, HasSubstr("shard-00001-of-00002"));
  ShardedModel first(0, 2, 4_MiB);
  EXPECT_TRUE(load_all(*checkpoint, first.stream(), first.tensors()).has_value());
  ShardedModel second(1, 2, 4_MiB);
  EXPECT_FALSE(load_all(*checkpoint, second.stream(), second.tensors()).has_value());
}

TEST(Parts, AGapFailsTheSave) {
  const Folder folder;
  ShardedModel model(0, 3, Bytes(64));
  // The only rank, with a third of everything.
  auto saver =
      CheckpointSaver::create(model.saver_options(folder.path(), 0, 1), model.tensors()).value();
  ASSERT_TRUE(saver->save(sample_state(1)).has_value());
  const auto outcome = saver->wait().at(0);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_THAT(outcome.error->message, HasSubstr("the parts of tensor \"wte.weight\" end at"));
  EXPECT_TRUE(list_folder(folder.path()).value().empty());
}

TEST(Manifest, PartsThatLeaveGapsOverlapOrLeaveTheTensorAreRefused) {
  const auto parsed = [](std::vector<Extent> extents) {
    Manifest manifest;
    manifest.state = sample_state(1);
    manifest.shards.push_back({"s", Bytes(1), "x"});
    ManifestTensor tensor{"t", DType::kF32, {10}, {}};
    for (const Extent extent : extents) tensor.parts.push_back({extent, "s", "c"});
    manifest.tensors.push_back(tensor);
    return parse_manifest(write_manifest(manifest), "m");
  };
  const auto sound = parsed({{0, 4}, {4, 6}});
  ASSERT_TRUE(sound.has_value()) << sound.error().to_text();
  EXPECT_EQ(sound->tensors.at(0).parts.at(1).extent, (Extent{4, 6}));
  for (const auto& extents :
       std::vector<std::vector<Extent>>{{{0, 4}, {5, 5}},
                                        {{0, 4}, {3, 7}},
                                        {{0, 4}, {4, 5}},
                                        {{0, 4}, {4, 7}},
                                        {{0, 10}, {10, 1}},
                                        {{1, 9}},
                                        {{0, 11}},
                                        {{0, 4}, {4, (std::int64_t{1} << 62)}}}) {
    const auto refused = parsed(extents);
    ASSERT_FALSE(refused.has_value()) << extents.back().first;
    EXPECT_EQ(refused.error().code, Code::kCorrupt);
  }
}

}  // namespace
}  // namespace quadrille
