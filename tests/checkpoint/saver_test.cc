// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>

#include <thread>

#include "checkpoint/sample_model.h"
#include "support/guarded_device.h"

namespace quadrille {
namespace {

using checkpoint_test::Folder;
using checkpoint_test::sample_state;
using checkpoint_test::SampleModel;
using checkpoint_test::save_now;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names_in(const std::string& folder) { return list_folder(folder).value(); }

/// Runs `body(rank)` on one thread per rank.
template <class Body>
void on_ranks(int ranks, Body body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::thread& thread : threads) thread.join();
}

/// Saves `steps` in turn from `ranks` ranks with equal content; rank 0's outcomes.
std::vector<SaveOutcome> save_from_ranks(const std::string& directory, int ranks,
                                         const std::vector<std::int64_t>& steps) {
  // Savers are made one after the other, as ranks that agree after create() would.
  std::vector<std::unique_ptr<SampleModel>> models;
  std::vector<std::unique_ptr<CheckpointSaver>> savers;
  for (int rank = 0; rank < ranks; ++rank) {
    models.push_back(std::make_unique<SampleModel>());
    SaverOptions options = models.back()->saver_options(directory);
    options.rank = Rank{rank};
    options.ranks = ranks;
    savers.push_back(CheckpointSaver::create(options, models.back()->tensors()).value());
  }
  std::vector<SaveOutcome> outcomes;
  on_ranks(ranks, [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    for (const std::int64_t step : steps) {
      models[index]->fill(static_cast<std::uint64_t>(step));
      EXPECT_TRUE(savers[index]->save(sample_state(step)).has_value());
      EXPECT_TRUE(savers[index]->wait_until_read().has_value());
    }
    auto ended = savers[index]->wait();
    if (rank == 0) outcomes = std::move(ended);
  });
  savers.clear();
  return outcomes;
}

TEST(Saver, WhatIsLoadedIsWhatWasSaved) {
  const Folder folder;
  SampleModel model;
  const SaveOutcome outcome = save_now(model, folder.path("checkpoints"), 7, 1);
  ASSERT_FALSE(outcome.error.has_value()) << outcome.error->to_text();
  EXPECT_EQ(outcome.path, folder.path("checkpoints/step-00000007"));
  EXPECT_THAT(names_in(outcome.path),
              ElementsAre("manifest.json", "shard-00000-of-00001.safetensors"));

  const auto checkpoint = Checkpoint::open(outcome.path);
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().to_text();
  EXPECT_TRUE(checkpoint->verify().has_value());
  const TrainingState& state = checkpoint->manifest().state;
  const TrainingState expected = sample_state(7);
  EXPECT_EQ(state.step, 7);
  EXPECT_EQ(state.consumed_tokens, expected.consumed_tokens);
  EXPECT_EQ(state.job_hash, expected.job_hash);
  EXPECT_EQ(state.plan_hash, expected.plan_hash);
  EXPECT_EQ(state.tokenizer, expected.tokenizer);
  EXPECT_TRUE(state.model == expected.model);
  EXPECT_TRUE(state.job == expected.job);

  model.fill(2);
  ASSERT_TRUE(load_all(*checkpoint, model.stream(), model.tensors()).has_value());
  EXPECT_TRUE(model.holds(1));
}

TEST(Saver, WritesTheTensorsAsTheyWereUntilItHasReadThem) {
  for (const bool guarded : {false, true}) {
    const Folder folder;
    SampleModel model(guarded ? testing::make_guarded_device() : make_host_device());
    auto saver =
        CheckpointSaver::create(model.saver_options(folder.path()), model.tensors()).value();
    model.fill(1);
    for (const std::int64_t step : {1, 2, 3}) {
      ASSERT_TRUE(saver->save(sample_state(step)).has_value());
      ASSERT_TRUE(saver->wait_until_read().has_value());
      model.fill(static_cast<std::uint64_t>(step) + 1);  // while the writer may still write
    }
    for (const SaveOutcome& outcome : saver->wait()) ASSERT_FALSE(outcome.error.has_value());
    for (const std::int64_t step : {1, 2, 3}) {
      const auto checkpoint = Checkpoint::open(folder.path("step-0000000" + std::to_string(step)));
      ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().to_text();
      ASSERT_TRUE(load_all(*checkpoint, model.stream(), model.tensors()).has_value());
      EXPECT_TRUE(model.holds(static_cast<std::uint64_t>(step)));
    }
  }
}

TEST(Saver, AFailedSaveLetsTheTensorsChange) {
  const Folder folder;
  SampleModel model;
  auto saver =
      CheckpointSaver::create(model.saver_options(folder.path("gone")), model.tensors()).value();
  ASSERT_TRUE(remove_tree(folder.path("gone")).has_value());
  ASSERT_TRUE(write_file_atomically(folder.path("gone"), "a file").has_value());
  ASSERT_TRUE(saver->save(sample_state(1)).has_value());
  EXPECT_TRUE(saver->wait_until_read().has_value());
  EXPECT_TRUE(saver->wait().at(0).error.has_value());
  EXPECT_EQ(saver->wait_until_read().value(), Seconds(0)) << "nothing is in flight";
}

TEST(Saver, NeverTouchesTensorMemoryItself) {
  const Folder folder;
  SampleModel model(testing::make_guarded_device());
  const SaveOutcome outcome = save_now(model, folder.path(), 3, 1);
  ASSERT_FALSE(outcome.error.has_value()) << outcome.error->to_text();
  model.fill(2);
  const auto checkpoint = Checkpoint::open(outcome.path);
  ASSERT_TRUE(checkpoint.has_value());
  ASSERT_TRUE(load_all(*checkpoint, model.stream(), model.tensors()).has_value());
  EXPECT_TRUE(model.holds(1));
}

TEST(Saver, CountsItsStagingInThePoolAndNeedsLittleOfIt) {
  const Folder folder;
  constexpr std::int64_t kLarge = 40 << 20;
  SampleModel small;
  SampleModel large(make_host_device(), {{"weight", StoredType::kU8, {kLarge}, {}}});
  for (SampleModel* model : {&small, &large}) {
    auto saver =
        CheckpointSaver::create(model->saver_options(folder.path()), model->tensors()).value();
    const Bytes staging = model->pool().leased(MemoryTag::kWorkspace);
    EXPECT_GT(staging, Bytes(0));
    EXPECT_LE(staging, model == &small ? Bytes(8192) : Bytes(kLarge / 4));
    saver.reset();
    EXPECT_EQ(model->pool().leased(MemoryTag::kWorkspace), Bytes(0));
  }
}

TEST(Saver, TensorsLargerThanTheStagingGoThroughItWhole) {
  for (const bool in_memory : {false, true}) {  // two file systems
    const Folder folder(in_memory);
    // Odd sizes: halves of the staging end inside tensors and inside elements.
    SampleModel model(make_host_device(), {{"odd", StoredType::kU8, {4'321}, {}},
                                           {"large", StoredType::kF64, {1'300'001}, {}},
                                           {"next", StoredType::kF32, {1'049'999}, {}},
                                           {"last", StoredType::kU8, {5}, {}}});
    ASSERT_FALSE(save_now(model, folder.path(), 1, 1).error.has_value());
    model.fill(2);
    const auto checkpoint = resolve_checkpoint(folder.path());
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().to_text();
    ASSERT_TRUE(load_all(*checkpoint, model.stream(), model.tensors()).has_value());
    EXPECT_TRUE(model.holds(1));
  }
}

TEST(Saver, ShardsOfSeveralRanksAreOneCheckpoint) {
  for (const int ranks : {2, 3, 11}) {
    const Folder folder;
    const auto outcomes = save_from_ranks(folder.path(), ranks, {4});
    ASSERT_EQ(outcomes.size(), 1u);
    ASSERT_FALSE(outcomes[0].error.has_value()) << outcomes[0].error->to_text();
    // One shard a rank and the manifest; the notes are gone.
    EXPECT_EQ(names_in(outcomes[0].path).size(), static_cast<std::size_t>(ranks) + 1);
    EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000004"));

    SampleModel one;  // another number of ranks loads the same state
    const auto checkpoint = Checkpoint::open(outcomes[0].path);
    ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().to_text();
    ASSERT_TRUE(load_all(*checkpoint, one.stream(), one.tensors()).has_value());
    EXPECT_TRUE(one.holds(4));

    const Folder alone;
    const SaveOutcome single = save_now(one, alone.path(), 4, 4);
    const auto difference = diff_checkpoints(*checkpoint, Checkpoint::open(single.path).value());
    ASSERT_TRUE(difference.has_value()) << difference.error().to_text();
    EXPECT_EQ(*difference, std::nullopt) << **difference;
  }
}

TEST(Saver, SavesInARowFromSeveralRanksDoNotMixTheirFiles) {
  const Folder folder;
  // The same step twice as well: its second content replaces the first.
  const auto outcomes = save_from_ranks(folder.path(), 3, {1, 2, 3, 3, 4, 4, 4});
  ASSERT_EQ(outcomes.size(), 7u);
  for (const SaveOutcome& outcome : outcomes) {
    EXPECT_FALSE(outcome.error.has_value()) << outcome.error->to_text();
  }
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("step-00000002", "step-00000003", "step-00000004"));
}

TEST(Saver, ReplacesACheckpointOfTheSameStep) {
  const Folder folder;
  SampleModel model;
  ASSERT_FALSE(save_now(model, folder.path(), 5, 1).error.has_value());
  ASSERT_FALSE(save_now(model, folder.path(), 5, 2).error.has_value());
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000005"));
  const auto checkpoint = resolve_checkpoint(folder.path());
  ASSERT_TRUE(checkpoint.has_value());
  model.fill(3);
  ASSERT_TRUE(load_all(*checkpoint, model.stream(), model.tensors()).has_value());
  EXPECT_TRUE(model.holds(2));
}

TEST(Saver, KeepsTheNewestSoundOnesAndLeavesDamagedOnesAlone) {
  const Folder folder;
  SampleModel model;
  for (const std::int64_t step : {1, 2, 3}) save_now(model, folder.path(), step, 1);
  ASSERT_TRUE(write_file_atomically(folder.path("step-00000003/manifest.json"), "{}").has_value());
  ASSERT_FALSE(save_now(model, folder.path(), 4, 1, 2).error.has_value());
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("step-00000002", "step-00000003", "step-00000004"));
}

TEST(Saver, ClearsWhatADeadRunLeft) {
  const Folder folder;
  SampleModel model;
  save_now(model, folder.path(), 1, 1);
  save_now(model, folder.path(), 2, 2);
  ASSERT_TRUE(make_folders(folder.path(".partial-step-00000009-1")).has_value());
  ASSERT_TRUE(make_folders(folder.path(".removed-step-00000001")).has_value());
  // A replacement that a kill cut short between its two renames: step 2 has only its former folder.
  ASSERT_TRUE(rename_durably(folder.path("step-00000002"), folder.path(".replaced-step-00000002"))
                  .has_value());
  EXPECT_EQ(list_checkpoints(folder.path()).value().size(), 2u);
  EXPECT_EQ(resolve_checkpoint(folder.path()).value().manifest().state.step, 2);
  ASSERT_TRUE(
      CheckpointSaver::create(model.saver_options(folder.path()), model.tensors()).has_value());
  EXPECT_THAT(names_in(folder.path()), ElementsAre("step-00000001", "step-00000002"));
}

TEST(Saver, ARankThatCannotWriteFailsTheSaveAtOnceAndSaysWhy) {
  const Folder folder;
  SampleModel zero;
  SampleModel one;
  SaverOptions options = zero.saver_options(folder.path());
  options.ranks = 2;
  auto first = CheckpointSaver::create(options, zero.tensors()).value();
  options = one.saver_options(folder.path());
  options.ranks = 2;
  options.rank = Rank{1};
  auto second = CheckpointSaver::create(options, one.tensors()).value();
  // Where rank 1 wants to write its shard there is a folder.
  ASSERT_TRUE(
      make_folders(folder.path(".partial-step-00000001-1/shard-00001-of-00002.safetensors/in"))
          .has_value());
  const Seconds start = monotonic_now();
  ASSERT_TRUE(first->save(sample_state(1)).has_value());
  ASSERT_TRUE(second->save(sample_state(1)).has_value());
  const auto outcome = first->wait().at(0);
  EXPECT_LT(monotonic_now() - start, options.timeout);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_THAT(outcome.error->message, HasSubstr("rank 1: cannot create"));
  EXPECT_TRUE(second->wait().at(0).error.has_value());
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(Saver, AMissingRankIsNamedAtTheDeadline) {
  const Folder folder;
  SampleModel model;
  SaverOptions options = model.saver_options(folder.path());
  options.ranks = 2;
  options.timeout = Seconds(0.05);
  auto saver = CheckpointSaver::create(options, model.tensors()).value();
  ASSERT_TRUE(saver->save(sample_state(1)).has_value());
  const auto outcome = saver->wait().at(0);
  ASSERT_TRUE(outcome.error.has_value());
  EXPECT_EQ(outcome.error->code, Code::kTimeout);
  EXPECT_THAT(outcome.error->message, HasSubstr("rank 1"));
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(Saver, RecordsHowASaveEnded) {
  const Folder folder;
  SampleModel model;
  EventLog events = EventLog::open(folder.path("events.jsonl")).value();
  SaverOptions options = model.saver_options(folder.path("checkpoints"));
  options.events = &events;
  auto saver = CheckpointSaver::create(options, model.tensors()).value();
  ASSERT_TRUE(saver->save(sample_state(6)).has_value());
  ASSERT_FALSE(saver->wait().at(0).error.has_value());
  ASSERT_TRUE(remove_tree(folder.path("checkpoints")).has_value());
  ASSERT_TRUE(write_file_atomically(folder.path("checkpoints"), "a file").has_value());
  ASSERT_TRUE(saver->save(sample_state(7)).has_value());  // not an error of the run
  EXPECT_TRUE(saver->wait().at(0).error.has_value());
  const std::string log = read_text_file(folder.path("events.jsonl")).value();
  EXPECT_THAT(log, HasSubstr("checkpoint_saved"));
  EXPECT_THAT(log, HasSubstr("checkpoint_failed"));
}

TEST(Saver, RefusesADirectoryItCannotWriteTo) {
  const Folder folder;
  SampleModel model;
  ASSERT_TRUE(write_file_atomically(folder.path("file"), "x").has_value());
  const auto saver =
      CheckpointSaver::create(model.saver_options(folder.path("file/inside")), model.tensors());
  ASSERT_FALSE(saver.has_value());
  EXPECT_THAT(saver.error().to_text(), HasSubstr("file"));
}

}  // namespace
}  // namespace quadrille
