// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/published_rows.h"

#include <gmock/gmock.h>

#include "plan/row_text.h"

namespace quadrille {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr std::string_view kRow = R"json({"id": "X1", "group": "g", "year": 2024, "num_gpus": 32,
  "gpu": "H100-80GB", "gpus_per_node": 8, "inter_node": "8x 400 Gb/s InfiniBand per node",
  "model": {"name": "m", "layers": 32, "hidden": 4096, "heads": 32, "kv_heads": 8, "ffn": 14336,
            "vocab": 128256, "seq_len": 8192, "mlp": "swiglu"},
  "tp": 4, "pp": 2, "dp": 4, "cp": 1, "interleave": 1, "sequence_parallel": true, "micro_batch": 1,
  "global_batch": 64, "recompute": "none", "zero_stage": 1, "precision": "FP8",
  "attention": "flash (cuDNN/TE fused)",
  "measured": {"step_time_s": 2.5, "peak_mem_gb": 61, "mem_kind": "nvidia-smi snapshot"}})json";

PublishedRow row_with(std::string_view piece = "", std::string_view by = "") {
  std::string text = "[" + std::string(kRow) + "]";
  if (!piece.empty()) {
    const std::size_t at = text.find(piece);
    EXPECT_NE(at, std::string::npos) << piece;
    text.replace(at, piece.size(), by);
  }
  const auto rows = published_rows_from(parse_json(text, {}).value());
  EXPECT_TRUE(rows.has_value());
  return rows->at(0);
}

TEST(PublishedRows, ReadsWhatARowSays) {
  const PublishedRow row = row_with();
  EXPECT_EQ(row.unmodelled, "");
  EXPECT_TRUE(row.defaults.empty());
  EXPECT_EQ(row.device, "H100-SXM5-80GB");
  EXPECT_EQ(row.devices(), 32);
  EXPECT_EQ(row.run.micro_batches(), 16);
  EXPECT_EQ(row.run.format, NumberFormat::kFp8);
  EXPECT_TRUE(row.run.model.gated);
  EXPECT_TRUE(row.run.software.vendor_attention);
  EXPECT_DOUBLE_EQ(row.cluster.links.at(1).bandwidth, 50e9);
  EXPECT_DOUBLE_EQ(*row.peak_bytes, 61 * 1024.0 * 1024 * 1024);
  EXPECT_EQ(row.measure, MemoryMeasure::kDevice);
}

TEST(PublishedRows, StatesTheDefaultsItTakes) {
  EXPECT_THAT(row_with(R"("zero_stage": 1, )").defaults, Contains(HasSubstr("zero_stage: 1")));
  EXPECT_THAT(row_with(R"("vocab": 128256, )").defaults, Contains(HasSubstr("vocab: 50688")));
  EXPECT_THAT(row_with(R"("precision": "FP8",)").defaults, Contains(HasSubstr("precision: bf16")));
  EXPECT_THAT(row_with(R"("recompute": "none", )").defaults, Contains(HasSubstr("recompute")));
}

TEST(PublishedRows, NamesWhatARowLacks) {
  EXPECT_EQ(row_with(R"("layers": 32, )").unmodelled, "no layers");
  EXPECT_EQ(row_with(R"("num_gpus": 32)", R"("gpus": 32)").unmodelled, "no num_gpus");
  EXPECT_THAT(row_with("H100-80GB", "abacus").unmodelled, HasSubstr("unknown device abacus"));
  EXPECT_THAT(row_with(R"("global_batch": 64)", R"("global_batch": 2)").unmodelled,
              HasSubstr("global batch"));
}

TEST(PublishedRows, RefusesAFileThatIsNoArrayOfObjects) {
  EXPECT_FALSE(published_rows_from(Json::object()).has_value());
  EXPECT_FALSE(published_rows_from(parse_json("[1]", {}).value()).has_value());
}

TEST(PublishedRows, ChoosesTheLargestMicroBatchThatFits) {
  PublishedRow row = row_with(R"("micro_batch": 1,)");
  ASSERT_TRUE(row.chooses_micro_batch);
  choose_missing(row);
  const auto bytes = [&] {
    return rank_memory(row.run, MemoryMeasure::kDevice).total() /
           static_cast<double>(row.cluster.devices.at(0).memory.count());
  };
  EXPECT_LE(bytes(), 1);
  EXPECT_GT(row.run.layout.micro_batch, 1);
  row.run.layout.micro_batch *= 2;
  EXPECT_TRUE(bytes() > 1 || row.run.micro_batches() < 1);
}

TEST(PublishedRows, ChoosesTheLeastRecomputeThatFits) {
  PublishedRow roomy = row_with(R"("recompute": "none", )");
  choose_missing(roomy);
  EXPECT_EQ(roomy.run.layout.recompute, RecomputeKind::kNone);
  PublishedRow tight = row_with(R"("recompute": "none", )");
  tight.run.layout.micro_batch = 16;
  choose_missing(tight);
  EXPECT_EQ(tight.run.layout.recompute, RecomputeKind::kFull);
}

TEST(RowText, ReadsTheNetworksOfPublishedRows) {
  const auto per_device = [](std::string_view text) {
    return internal::network_from(text).bandwidth_per_device(8);
  };
  EXPECT_DOUBLE_EQ(per_device("8x 200 Gb/s HDR InfiniBand per node"), 25e9);
  EXPECT_DOUBLE_EQ(per_device("RoCE 1600 Gbps/node"), 25e9);
  EXPECT_DOUBLE_EQ(per_device("RDMA 400 Gb/s per GPU"), 50e9);
  EXPECT_DOUBLE_EQ(per_device("vTrain config: 800 Gbps per node total"), 12.5e9);
  EXPECT_DOUBLE_EQ(per_device("nodes; 4x Omni-Path per node; bench = 15-42 Gbps algo"), 6.25e9);
  EXPECT_DOUBLE_EQ(per_device("Management: 1x DPU Ethernet 100Gb/Sec, Compute: 8x ConnectX-7 "
                              "InfiniBand NDR 400Gb/Sec"),
                   50e9);
  EXPECT_EQ(per_device("NVIDIA DGX SuperPOD"), 0);
  EXPECT_EQ(internal::network_from("4x 100 Gb/s RoCE per node").fabric, "roce");
  EXPECT_EQ(internal::network_from("4x Omni-Path per node").fabric, "omnipath");
}

}  // namespace
}  // namespace quadrille
