// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Each benchmark runs to its end on something tiny and gives rows with figures and peers; how fast
// anything is, is not asserted.

#include "quadrille/bench/benchmarks.h"

#include <gmock/gmock.h>

#include <cmath>

#include "quadrille/bench/roofs.h"
#include "quadrille/kernels/rounding.h"
#include "support/tiny_run.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;

ModelSpec tiny_model() {
  return {.layers = 2, .hidden = 24, .heads = 3, .ffn = 96, .vocab = 300, .context = 16};
}

BenchSetting tiny_setting() {
  BenchSetting setting;
  setting.threads = 2;
  setting.repetitions = 2;
  return setting;
}

void expect_sound(const Result<BenchReport>& report) {
  ASSERT_TRUE(report.has_value()) << report.error().to_text();
  EXPECT_FALSE(report->rows.empty());
  for (const BenchRow& row : report->rows) {
    EXPECT_TRUE(std::isfinite(row.value.median)) << row.name;
    EXPECT_GE(row.value.median, row.value.lowest) << row.name;
    EXPECT_LE(row.value.median, row.value.highest) << row.name;
    for (const BenchPeer& peer : row.peers) {
      EXPECT_TRUE(std::isfinite(peer.ratio.median)) << row.name << " / " << peer.name;
    }
  }
  EXPECT_TRUE(bench_report_from(to_json(*report)).has_value());
}

const BenchRow& row_named(const BenchReport& report, const std::string& part) {
  for (const BenchRow& row : report.rows) {
    if (row.name.find(part) != std::string::npos) return row;
  }
  ADD_FAILURE() << "no row of " << part;
  return report.rows.front();
}

TEST(BenchStep, SetsTheStepBesideItsProductsAndRanksBesideOneProcess) {
  StepBench bench;
  bench.model = tiny_model();
  bench.tokens = {{4, 8}};
  const auto report = bench_step(bench, tiny_setting());
  expect_sound(report);
  const BenchRow& fp32 = row_named(*report, "fp32, 4 x 8 tokens, 1 rank of 2 threads");
  EXPECT_EQ(fp32.value.count, 2);
  ASSERT_EQ(fp32.peers.size(), 1u);
  EXPECT_EQ(fp32.peers[0].aim, 1.25);
  const BenchRow& bf16 = row_named(*report, "bf16, 4 x 8 tokens");
  ASSERT_EQ(bf16.peers.size(), 2u);
  EXPECT_THAT(bf16.peers[1].name, HasSubstr("fp32"));
  const BenchRow& ranks = row_named(*report, "2 ranks of 1 thread");
  ASSERT_EQ(ranks.peers.size(), 1u);
  EXPECT_EQ(ranks.peers[0].value.median, fp32.value.median);
  EXPECT_GT(row_named(*report, "peak of the pool").value.median, 0);
}

TEST(BenchStep, RefusesTokensThatTheModelHasNoPositionsFor) {
  StepBench bench;
  bench.model = tiny_model();
  bench.tokens = {{1, 17}};
  const auto report = bench_step(bench, tiny_setting());
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error().code, Code::kInvalid);
  EXPECT_THAT(report.error().message, HasSubstr("context of 16"));
}

TEST(BenchGemm, HasARowForEachOfTheFifteenKindsOfProducts) {
  GemmBench bench;
  bench.model = tiny_model();
  bench.tokens = 16;
  const auto report = bench_gemm(bench, tiny_setting());
  expect_sound(report);
  const bool has_bf16 = kernels::bf16_products() == kernels::ProductPrecision::kBf16;
  EXPECT_EQ(report->rows.size(), has_bf16 ? 30u : 15u);
  // 16 tokens through a layer of 24 to 96.
  EXPECT_THAT(row_named(*report, "expansion to weight").name, HasSubstr("96x24x16"));
}

TEST(BenchAttention, StandsBesideOneDnnAtEachLength) {
  AttentionBench bench;
  bench.tokens = {16, 32};
  bench.heads = 2;
  bench.head_width = 8;
  const auto report = bench_attention(bench, tiny_setting());
  expect_sound(report);
  EXPECT_THAT(row_named(*report, "backward, 32 tokens").peers[0].name, HasSubstr("oneDNN"));
}

TEST(BenchOptimizer, StandsBesideLoopsOverAsManyArrays) {
  OptimizerBench bench;
  bench.model = tiny_model();
  expect_sound(bench_optimizer(bench, tiny_setting()));
}

TEST(BenchComm, TimesEveryCollectiveAmongThreads) {
  CommBench bench;
  bench.ranks = {2};
  bench.bytes = {4096, 2 << 20};
  const auto report = bench_comm(bench, tiny_setting());
  expect_sound(report);
  EXPECT_EQ(report->rows.size(), 4u * 2 + 1);
  bench.bytes = {10};
  EXPECT_EQ(bench_comm(bench, tiny_setting()).error().code, Code::kInvalid);
}

TEST(BenchData, TimesBatchesAndTheTokenizer) {
  const test::TemporaryFolder folder;
  expect_sound(bench_data({}, tiny_setting()));
  DataBench bench;
  bench.tokenizer = folder.path() + "/absent";
  EXPECT_FALSE(bench_data(bench, tiny_setting()).has_value());
}

TEST(BenchCheckpoint, StandsBesideTheDiskAndLeavesNothingInAFolderOfItsOwn) {
  CheckpointBench bench;
  bench.model = tiny_model();
  bench.tokens = {2, 8};
  const auto report = bench_checkpoint(bench, tiny_setting());
  expect_sound(report);
  EXPECT_EQ(row_named(*report, "save of").peers[0].aim, 0.8);
}

TEST(BenchGenerate, StandsBesideProductsAndBandwidth) {
  GenerateBench bench;
  bench.model = tiny_model();
  bench.prompt = 8;
  bench.steps = 2;
  const auto report = bench_generate(bench, tiny_setting());
  expect_sound(report);
  EXPECT_EQ(row_named(*report, "decoding 8 sequences, fp32").peers[0].aim, 3.5);
}

TEST(Roofs, AreOfAProductsOwnShapeAndOfAsManyBytesAsACallMoves) {
  StepsProfile profile;
  profile.threads = 1;
  profile.operations = {{.name = "matmul",
                         .extents = {16, 24, 8},
                         .variant = "NT",
                         .calls = 1,
                         .flops = Flops(1),
                         .bytes = 1e5},
                        {.name = "attention", .calls = 1, .flops = Flops(1), .bytes = 10},
                        {.name = "all_reduce", .variant = "collective", .calls = 1, .bytes = 10}};
  const auto roofs = measure_roofs(profile);
  ASSERT_TRUE(roofs.has_value());
  const Roof& product = roofs->at("matmul 16x24x8 NT");
  EXPECT_GT(product.flops_per_second, 0);
  EXPECT_GT(product.bytes_per_second, 0);
  EXPECT_EQ(roofs->at("attention").flops_per_second, product.flops_per_second);
  EXPECT_EQ(roofs->count("all_reduce"), 0u);
}

}  // namespace
}  // namespace quadrille
