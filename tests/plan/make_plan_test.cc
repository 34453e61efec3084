// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "plan/sample_job.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/plan/activation_arena.h"
#include "quadrille/plan/plan.h"
#include "quadrille/schedule/verify.h"

namespace quadrille {
namespace {

using test::machine_of;
using test::machine_that_fits;
using test::sample_job;
using ::testing::AnyOf;
using ::testing::HasSubstr;

Bytes total(const Plan& plan) {
  Bytes sum;
  for (const auto& [tag, bytes] : plan.rank_bytes) sum += bytes;
  return sum;
}

Error error_of(const JobSpec& job, const MachineFacts& machine) {
  const auto plan = make_plan(job, machine);
  EXPECT_FALSE(plan.has_value()) << explain(*plan);
  return plan ? Error{} : plan.error();
}

TEST(MakePlan, AutoTakesAsManyRanksAsCoresAllowAndTheBatchDividesInto) {
  for (const auto& [cores, ranks] : {std::pair(1, 1), {2, 2}, {5, 4}, {8, 6}, {64, 12}}) {
    const auto plan = make_plan(sample_job(), machine_of(cores));
    ASSERT_TRUE(plan.has_value()) << plan.error().to_text();
    EXPECT_EQ(plan->ranks(), ranks) << cores << " cores, 12 sequences";
    EXPECT_EQ(plan->job.parallel.data, ranks) << "the choice replaces \"auto\"";
  }
}

TEST(MakePlan, SaysThatACustomModelsMemoryIsNotPlannedAndLimitsARankToItsShare) {
  JobSpec job = sample_job();
  job.model = {.family = ModelFamily::kCustom, .vocab = 256, .context = job.model.context};
  MachineFacts machine = machine_of(2);
  machine.memory = Bytes(100);
  const auto plan = make_plan(job, machine);
  ASSERT_FALSE(plan.has_value()) << "not even its batch fits";
  machine.memory = 1_GiB;
  const auto fitting = make_plan(job, machine);
  ASSERT_TRUE(fitting.has_value()) << fitting.error().to_text();
  EXPECT_EQ(fitting->rank_limit, Bytes((std::int64_t{1} << 30) / 10 * 9 / fitting->ranks()))
      << "nine tenths, shared";
  EXPECT_THAT(explain(*fitting), HasSubstr("memory of a program's own model is not planned"));
  const auto read = plan_from(to_json(*fitting));
  ASSERT_TRUE(read.has_value()) << read.error().to_text();
  EXPECT_TRUE(read->job.model.is_custom());
}

TEST(MakePlan, EveryLayoutCoversTheGlobalBatchWithAProgramThatVerifies) {
  for (std::int64_t batch = 1; batch <= 24; ++batch) {
    for (std::int64_t ranks = 1; ranks <= batch; ++ranks) {
      JobSpec job = sample_job();
      job.training.global_batch = batch;
      job.parallel.data = ranks;
      const auto plan = make_plan(job, machine_of(2));
      ASSERT_EQ(plan.has_value(), batch % ranks == 0) << batch << " over " << ranks;
      if (!plan) continue;
      EXPECT_EQ(plan->micro_batch * plan->micro_batches * ranks, batch);
      EXPECT_EQ(plan->program.ranks.size(), static_cast<std::size_t>(ranks));
      EXPECT_EQ(plan->program.layers, layer_count(job.model));
      EXPECT_TRUE(verify(plan->program).has_value());
    }
  }
}

TEST(MakePlan, AutoMicroBatchIsTheLargestDivisorWithinTheTokensOfAForward) {
  JobSpec job = sample_job();
  job.parallel.data = 1;
  job.model.context = 1000;
  // At most 4096 tokens: 4 sequences of 1000, and 4 divides 12 where 5 would not matter.
  job.training.sequence = 1000;
  EXPECT_EQ(make_plan(job, machine_of(1)).value().micro_batch, 4);
  // 8 sequences of 500 would be allowed; the largest divisor of 12 below is 6.
  job.training.sequence = 500;
  EXPECT_EQ(make_plan(job, machine_of(1)).value().micro_batch, 6);
  // A sequence longer than that is still one forward.
  job.training.sequence = job.model.context = 5000;
  EXPECT_EQ(make_plan(job, machine_of(1)).value().micro_batch, 1);
  job.training.sequence = 4;
  EXPECT_EQ(make_plan(job, machine_of(1)).value().micro_batch, 12);
}

/// Every byte of the sample counted by hand. Tensors start on 64 bytes, so lengths are rounded up
/// to 16 floats.
TEST(MakePlan, PredictsMemoryByTagToTheByte) {
  JobSpec job = sample_job();
  job.parallel.data = 1;
  job.training.micro_batch = 3;
  const auto plan = make_plan(job, machine_of(1));
  ASSERT_TRUE(plan.has_value()) << plan.error().to_text();
  const std::int64_t h = 8, f = 16, v = 256, c = 4;
  const auto padded = [](std::int64_t floats) { return (floats + 15) / 16 * 16 * 4; };
  const std::vector<std::int64_t> tensors = {v * h,     c * h,  // embeddings; the head is tied
                                             h,         h,      // first norm
                                             3 * h * h, 3 * h, h * h, h,  // attention
                                             h,         h,                // second norm
                                             f * h,     f,     h * f, h,  // MLP
                                             h,         h};               // final norm
  std::int64_t parameters = 0;
  std::int64_t exact = 0;
  for (const std::int64_t floats : tensors) {
    parameters += padded(floats);
    exact += floats;
  }
  ASSERT_EQ(parameter_count(job.model), exact);
  EXPECT_EQ(plan->rank_bytes.at("parameter"), Bytes(parameters));
  EXPECT_EQ(plan->rank_bytes.at("gradient"), Bytes(parameters));
  EXPECT_EQ(plan->rank_bytes.at("optimizer"), Bytes(2 * parameters));
  EXPECT_EQ(plan->rank_bytes.at("communication"), Bytes(0)) << "threads send no messages";
  // 3 x 4 token ids of inputs and of targets (48 bytes each, padded), the loss sum's line, a
  // float64 a tensor, and what the only rank's checkpoint passes through: two disk blocks at least,
  // and no more of them than it needs.
  const auto count = static_cast<std::int64_t>(tensors.size());
  const std::int64_t staging = (3 * 4 * exact + 8191) / 8192 * 8192;
  EXPECT_EQ(plan->rank_bytes.at("workspace"), Bytes(64 + 64 + 64 + 8 * count + staging));
  EXPECT_EQ(plan->rank_bytes.at("activation"), plan->activation_arena);
  EXPECT_GE(plan->rank_limit, total(*plan));
}

TEST(MakePlan, ActivationArenaHoldsWhatABlockKeepsAndNoMoreThanAllAtOnce) {
  JobSpec job = sample_job();
  job.parallel.data = 1;
  job.training.micro_batch = 2;
  const auto plan = make_plan(job, machine_of(1));
  ASSERT_TRUE(plan.has_value());
  Bytes saved;
  Bytes all;
  for (const ActivationShape& shape : activation_shapes(job.model, {2, job.training.sequence})) {
    if (shape.life == ActivationLife::kSaved) saved += shape.bytes();
    all += Bytes((shape.bytes().count() + 63) / 64 * 64);
  }
  EXPECT_GE(plan->activation_arena, saved);
  EXPECT_LE(plan->activation_arena, all);
  // The trainer carves its lease from the real program: it must need exactly the predicted bytes.
  const ActivationArena arena =
      activation_arena(job.model, {2, job.training.sequence}, plan->program.ranks[0]);
  EXPECT_EQ(arena.layout.total, plan->activation_arena);
}

TEST(MakePlan, ProcessesStageMessagesAndThreadsDoNot) {
  JobSpec job = sample_job();
  job.parallel.data = 3;
  job.communication.shared_memory = false;
  MachineFacts machine = machine_of(4);
  machine.backend = "mpi";
  const auto staged = [&](Bytes bucket) {
    job.communication.bucket = bucket;
    return make_plan(job, machine).value().rank_bytes.at("communication");
  };
  // Parts of two peers, each a third of a bucket, padded to 64 bytes.
  EXPECT_EQ(staged(Bytes(30'000)), Bytes(2 * (10'000 + 48)));
  // A bucket takes a gradient whole: the embedding's 256 x 8 floats, of which 2731 bytes are a
  // third.
  EXPECT_EQ(staged(Bytes(3'000)), Bytes(2 * 43 * 64));
  // Parts are cut into messages of at most 1 MiB.
  EXPECT_EQ(staged(1_GiB), 2_MiB);
  // Where they may share memory they also have a place to meet there.
  job.communication.shared_memory = true;
  EXPECT_EQ(staged(1_GiB), 2_MiB + 272_KiB);
}

TEST(MakePlan, TakesFewerSequencesAtATimeWhereMemoryIsShort) {
  JobSpec job = sample_job();
  job.parallel.data = 1;
  const Bytes needed = total(make_plan(job, machine_of(1)).value());
  job.memory.host_limit = needed - Bytes(1);
  const auto smaller = make_plan(job, machine_of(1));
  ASSERT_TRUE(smaller.has_value()) << smaller.error().to_text();
  EXPECT_LT(smaller->micro_batch, 12);
  EXPECT_LE(total(*smaller), job.memory.host_limit);
  EXPECT_LE(smaller->rank_limit, job.memory.host_limit);
  EXPECT_THAT(explain(*smaller), HasSubstr("the largest that fits the memory"));
}

TEST(MakePlan, SaysByHowMuchMemoryIsShortAndWhatWouldFit) {
  JobSpec job = sample_job();
  job.parallel.data = 1;
  job.training.micro_batch = 12;
  const Bytes needed = total(make_plan(job, machine_of(1)).value());
  job.memory.host_limit = needed - Bytes(100);
  const Error large_batch = error_of(job, machine_of(1));
  EXPECT_EQ(large_batch.code, Code::kExhausted);
  EXPECT_THAT(large_batch.message, HasSubstr("100 B are missing"));
  EXPECT_THAT(large_batch.message, HasSubstr("training.micro_batch 6 would fit"));
  job.memory.host_limit = Bytes(1000);
  EXPECT_THAT(error_of(job, machine_of(1)).message, HasSubstr("only a smaller model"));
  // Two ranks do not fit the machine, one would.
  JobSpec ranks = sample_job();
  ranks.parallel.data = 1;
  ranks.training.micro_batch = 1;
  const Bytes one = total(make_plan(ranks, machine_of(2)).value());
  ranks.parallel.data = 12;
  const Error many = error_of(ranks, machine_that_fits(2, one));
  EXPECT_EQ(many.code, Code::kExhausted);
  EXPECT_THAT(many.message, HasSubstr("1 rank with training.micro_batch 1 would fit"));
}

TEST(MakePlan, AutoTakesFewerRanksWhereMemoryIsShort) {
  JobSpec job = sample_job();
  job.parallel.data = 1;
  job.training.micro_batch = 1;
  const Bytes one = total(make_plan(job, machine_of(1)).value());
  job.parallel.data = 0;
  const auto plan = make_plan(job, machine_that_fits(12, one));
  ASSERT_TRUE(plan.has_value()) << plan.error().to_text();
  EXPECT_EQ(plan->ranks(), 1);
}

TEST(MakePlan, RefusesMoreRanksThanSequencesAndBatchesThatDoNotDivide) {
  JobSpec job = sample_job();
  job.parallel.data = 13;
  Error error = error_of(job, machine_of(2));
  EXPECT_EQ(error.code, Code::kInvalid);
  ASSERT_EQ(error.diagnostics.size(), 1U);
  EXPECT_EQ(error.diagnostics[0].path, "parallel.data");
  job.parallel.data = 5;
  error = error_of(job, machine_of(2));
  ASSERT_EQ(error.diagnostics.size(), 1U);
  EXPECT_EQ(error.diagnostics[0].path, "training.global_batch");
  EXPECT_THAT(error.diagnostics[0].right, HasSubstr("1, 2, 3, 4, 6, 12 ranks"));
  job.parallel.data = 3;
  job.training.micro_batch = 3;
  error = error_of(job, machine_of(2));
  ASSERT_EQ(error.diagnostics.size(), 1U);
  EXPECT_EQ(error.diagnostics[0].path, "training.micro_batch");
  EXPECT_THAT(error.diagnostics[0].right, HasSubstr("1, 2, 4"));
}

TEST(MakePlan, CountsTheKeptCheckpointsAndTheOneBeingWritten) {
  JobSpec job = sample_job();
  job.checkpoint.keep = 2;
  MachineFacts machine = machine_of(1);
  const Bytes checkpoint = make_plan(job, machine).value().checkpoint_bytes;
  EXPECT_GE(checkpoint, Bytes(3 * 4) * parameter_count(job.model));
  machine.disk_free = checkpoint * 3;
  EXPECT_TRUE(make_plan(job, machine).has_value());
  machine.disk_free = checkpoint * 3 - Bytes(1);
  const Error error = error_of(job, machine);
  EXPECT_EQ(error.code, Code::kExhausted);
  EXPECT_THAT(error.message, HasSubstr("1 B are missing"));
  job.checkpoint.every = 0;  // only one is made, at the end
  machine.disk_free = checkpoint;
  EXPECT_TRUE(make_plan(job, machine).has_value());
}

TEST(MakePlan, UnknownMemoryAndDiskAreNoReasonToRefuse) {
  MachineFacts machine = machine_of(2, Bytes(0));
  machine.disk_free = Bytes(0);
  const auto plan = make_plan(sample_job(), machine);
  ASSERT_TRUE(plan.has_value());
  EXPECT_THAT(explain(*plan), HasSubstr("is unknown"));
}

TEST(MakePlan, AbsurdSizesAreRefusedNotOverflown) {
  const std::int64_t huge = std::int64_t{1} << 40;
  for (std::int64_t ModelSpec::*field :
       {&ModelSpec::layers, &ModelSpec::hidden, &ModelSpec::ffn, &ModelSpec::vocab}) {
    JobSpec job = sample_job();
    job.model.*field = huge * (field == &ModelSpec::hidden ? 1 : 1 << 20);
    EXPECT_THAT(error_of(job, machine_of(2)).code, AnyOf(Code::kExhausted, Code::kInvalid));
  }
  JobSpec job = sample_job();
  job.training.sequence = huge << 20;
  EXPECT_EQ(error_of(job, machine_of(2)).code, Code::kExhausted);
}

TEST(MakePlan, IsDeterministic) {
  const Json first = to_json(make_plan(sample_job(), machine_of(4)).value());
  const Json second = to_json(make_plan(sample_job(), machine_of(4)).value());
  EXPECT_TRUE(first == second);
}

TEST(Explain, NamesEveryTagRankAndReason) {
  JobSpec job = sample_job();
  job.parallel.data = 2;
  const auto plan = make_plan(job, machine_of(2));
  ASSERT_TRUE(plan.has_value());
  const std::string text = explain(*plan);
  for (const auto& [tag, bytes] : plan->rank_bytes) {
    EXPECT_THAT(text, HasSubstr(tag));
    EXPECT_THAT(text, HasSubstr(to_text(bytes)));
  }
  for (const std::string& reason : plan->reasons) EXPECT_THAT(text, HasSubstr(reason));
  EXPECT_THAT(text, HasSubstr("sequences 0 to 5"));
  EXPECT_THAT(text, HasSubstr("sequences 6 to 11"));
  EXPECT_THAT(text, HasSubstr("MFU will be null"));
}

}  // namespace
}  // namespace quadrille
