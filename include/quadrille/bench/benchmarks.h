// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The bundled benchmarks, one function each. They measure through public headers, interleave what
// they compare, and take from seconds to two minutes; the machine should be otherwise idle. They
// own the machine while they run: the calling thread is pinned and its pool sized.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/bench/report.h"
#include "quadrille/config/job_spec.h"

namespace quadrille {

/// What all benchmarks have in common.
struct BenchSetting {
  int threads = 0;      ///< Of one process; 0: all cores.
  int repetitions = 7;  ///< Measured, after those that warm up.
  std::string folder;   ///< For files; empty: a temporary one, removed at the end.
  std::string program;  ///< This program, to start MPI ranks; empty: no MPI.
  std::function<void(std::string_view)> progress = [](std::string_view) {};
};

/// Sequences times tokens of one step.
struct StepTokens {
  std::int64_t sequences = 4;
  std::int64_t tokens = 64;
};

/// GPT-2 124M: 12 layers of 768, vocabulary 50,257, context 1,024.
[[nodiscard]] ModelSpec gpt2_124m();

struct StepBench {
  ModelSpec model = gpt2_124m();
  std::vector<StepTokens> tokens = {{4, 64}, {1, 256}};
  std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16};
  int ranks = 2;         ///< Of the data-parallel run, threads = cores / ranks each; 1: none.
  bool profile = false;  ///< Adds the profile of each training to the notes.
};
/// A training step beside the sum of its linear products in oneDNN; bf16 beside fp32; ranks beside
/// one process; page faults, leases and peak memory.
[[nodiscard]] Result<BenchReport> bench_step(const StepBench& bench, const BenchSetting& setting);

struct GemmBench {
  ModelSpec model = gpt2_124m();
  std::int64_t tokens = 256;
  bool bf16 = true;
};
/// Each of the model's kinds of products beside OpenBLAS and the multiply-add peak.
[[nodiscard]] Result<BenchReport> bench_gemm(const GemmBench& bench, const BenchSetting& setting);

struct AttentionBench {
  std::vector<std::int64_t> tokens = {256, 512, 1024, 2048, 4096, 8192};
  std::int64_t heads = 12;
  std::int64_t head_width = 64;
};
/// Forward and backward of one sequence beside oneDNN's strided batches of the same products;
/// memory a token.
[[nodiscard]] Result<BenchReport> bench_attention(const AttentionBench& bench,
                                                  const BenchSetting& setting);

struct OptimizerBench {
  ModelSpec model = gpt2_124m();
};
/// AdamW, and the whole optimizer step, beside loops that read four arrays and write three.
[[nodiscard]] Result<BenchReport> bench_optimizer(const OptimizerBench& bench,
                                                  const BenchSetting& setting);

struct CommBench {
  std::vector<int> ranks = {2, 4};
  std::vector<std::int64_t> bytes = {16 << 10, 64 << 10, 256 << 10, 1 << 20,
                                     4 << 20,  16 << 20, 64 << 20};
};
/// Collectives of threads and of MPI processes beside Open MPI's and a quarter of the memory's
/// rate. Bytes a second: those of the tensor over the slowest rank's time.
[[nodiscard]] Result<BenchReport> bench_comm(const CommBench& bench, const BenchSetting& setting);
/// One rank of bench_comm's MPI processes, started by it: `sizes` is bytes, comma-separated; rank 0
/// writes what it found into the run directory.
[[nodiscard]] Result<void> run_comm_rank(const std::string& sizes, int repetitions);

struct DataBench {
  std::string tokenizer = "bytes";
  std::string text;  ///< A file to encode; empty: a made-up text.
};
/// Batches a second, and the tokenizer's bytes a second.
[[nodiscard]] Result<BenchReport> bench_data(const DataBench& bench, const BenchSetting& setting);

struct CheckpointBench {
  ModelSpec model = gpt2_124m();
  StepTokens tokens = {4, 64};
  bool asynchronous = true;  ///< Also what a save costs the steps beside it.
};
/// Saving and loading beside the disk's sequential rates.
[[nodiscard]] Result<BenchReport> bench_checkpoint(const CheckpointBench& bench,
                                                   const BenchSetting& setting);

struct GenerateBench {
  ModelSpec model = gpt2_124m();
  std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16};
  std::int64_t prompt = 256;
  std::int64_t steps = 16;
};
/// Prompt and decoding beside their products and the reading of the weights.
[[nodiscard]] Result<BenchReport> bench_generate(const GenerateBench& bench,
                                                 const BenchSetting& setting);

}  // namespace quadrille
