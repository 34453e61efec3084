// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Attention beside its products in oneDNN.

#include <fmt/format.h>

#include <algorithm>

#include "bench/folder.h"
#include "bench/products.h"
#include "bench/resident.h"
#include "bench/tensors.h"
#include "quadrille/base/text.h"
#include "quadrille/bench/benchmarks.h"
#include "quadrille/kernels/attention.h"

namespace quadrille {
namespace {

using internal::Product;

/// 1 / 0.6 of oneDNN's time.
constexpr double kAim = 1.67;
/// oneDNN stores T x T for each head; beyond this its buffers are too large to hold.
constexpr std::int64_t kMostProductTokens = 2048;

/// Tensors of one sequence and both directions.
struct Pair {
  internal::Tensors tensors;
  kernels::AttentionForward forward;
  kernels::AttentionBackward backward;
};

Result<void> make(Pair& pair, const AttentionBench& bench, std::int64_t tokens) {
  const std::int64_t width = bench.heads * bench.head_width;
  QD_ASSIGN_OR_RETURN(const TensorView qkv, pair.tensors.make({1, tokens, 3 * width}));
  QD_ASSIGN_OR_RETURN(const TensorView out, pair.tensors.make({1, tokens, width}));
  QD_ASSIGN_OR_RETURN(const TensorView rows, pair.tensors.make({1, bench.heads, tokens}));
  QD_ASSIGN_OR_RETURN(const TensorView delta, pair.tensors.make({1, bench.heads, tokens}));
  QD_ASSIGN_OR_RETURN(const TensorView dout, pair.tensors.make({1, tokens, width}));
  QD_ASSIGN_OR_RETURN(const TensorView dqkv, pair.tensors.make({1, tokens, 3 * width}));
  const auto input = kernels::packed_attention_input(qkv, bench.heads, bench.heads);
  pair.forward = {.input = input, .out = out, .log_sum_exp = rows};
  pair.backward = {.input = input,
                   .out = out,
                   .log_sum_exp = rows,
                   .dout = dout,
                   .delta = delta,
                   .gradient = kernels::packed_attention_input(dqkv, bench.heads, bench.heads)};
  return {};
}

/// What a call of oneDNN's computes of all T x T, the causal half is due.
double causal_share(std::int64_t tokens) {
  return static_cast<double>(tokens + 1) / static_cast<double>(2 * tokens);
}

std::vector<Product> products_of(const AttentionBench& bench, std::int64_t tokens, bool backward) {
  const Product to_weights{
      .m = tokens, .n = tokens, .k = bench.head_width, .transpose_b = true, .batch = bench.heads};
  const Product by_weights{.m = tokens, .n = bench.head_width, .k = tokens, .batch = bench.heads};
  Product by_transposed = by_weights;
  by_transposed.transpose_a = true;
  // Q K^T and P V; then dO V^T, dS K, dS^T Q and P^T dO.
  if (!backward) return {to_weights, by_weights};
  return {to_weights, by_weights, by_transposed, by_transposed};
}

class LengthBench {
 public:
  LengthBench(const AttentionBench& bench, const BenchSetting& setting, std::int64_t tokens)
      : bench_(bench), tokens_(tokens), repetitions_(setting.repetitions) {
    // A call of the longest takes seconds.
    if (tokens > kMostProductTokens) repetitions_ = std::min(repetitions_, 3);
  }

  Result<void> run(BenchReport& report, double& bytes_per_token) {
    const std::int64_t before = internal::resident_bytes();
    Pair pair;
    QD_RETURN_IF_ERROR(make(pair, bench_, tokens_));
    kernels::attention_forward(pair.tensors.stream(), pair.forward);
    kernels::attention_backward(pair.tensors.stream(), pair.backward);
    bytes_per_token =
        static_cast<double>(internal::resident_bytes() - before) / static_cast<double>(tokens_);
    report.rows.push_back(row("forward", false, [&] {
      kernels::attention_forward(pair.tensors.stream(), pair.forward);
    }));
    report.rows.push_back(row("backward", true, [&] {
      kernels::attention_backward(pair.tensors.stream(), pair.backward);
    }));
    return {};
  }

 private:
  BenchRow row(const char* direction, bool backward, const std::function<void()>& call) const {
    const std::string name = fmt::format("{}, {} tokens, {} heads of {}", direction,
                                         grouped(tokens_), bench_.heads, bench_.head_width);
    if (tokens_ > kMostProductTokens) {
      return {.name = name,
              .unit = "s",
              .value = figure_of(internal::time_calls(call, repetitions_)),
              .peers = {}};
    }
    std::vector<std::unique_ptr<internal::PreparedProduct>> products;
    for (const Product& product : products_of(bench_, tokens_, backward)) {
      products.push_back(internal::prepare_onednn(product));
    }
    auto seconds = internal::time_interleaved({call,
                                               [&] {
                                                 for (const auto& each : products) each->run();
                                               }},
                                              repetitions_);
    for (double& each : seconds[1]) each *= causal_share(tokens_);
    return {.name = name,
            .unit = "s",
            .value = figure_of(seconds[0]),
            .peers = {{"its products in oneDNN, the causal half", figure_of(seconds[1]),
                       ratio_of(seconds[0], seconds[1]),
                       tokens_ == 1024 ? std::optional(kAim) : std::nullopt}}};
  }

  const AttentionBench& bench_;
  std::int64_t tokens_;
  int repetitions_;
};

}  // namespace

Result<BenchReport> bench_attention(const AttentionBench& bench, const BenchSetting& setting) {
  QD_ASSIGN_OR_RETURN(BenchReport report, new_report("attention"));
  QD_ASSIGN_OR_RETURN(const int threads, internal::threads_of(setting));
  QD_RETURN_IF_ERROR(internal::bind_pool(threads));
  std::vector<double> per_token;
  for (const std::int64_t tokens : bench.tokens) {
    if (tokens < 1) return fail(Code::kInvalid, "attention needs a token");
    setting.progress(fmt::format("attention: {} tokens", tokens));
    double bytes = 0;
    QD_RETURN_IF_ERROR(LengthBench(bench, setting, tokens).run(report, bytes));
    per_token.push_back(bytes);
  }
  // Beside the length before; where that fits what the process already holds, there is nothing to
  // compare.
  for (std::size_t i = 1; i < per_token.size(); ++i) {
    if (per_token[i - 1] <= 0) continue;
    report.rows.push_back(
        {.name = fmt::format("resident memory a token, {} tokens", grouped(bench.tokens[i])),
         .unit = "bytes",
         .value = figure_of(per_token[i]),
         .peers = {{fmt::format("{} tokens", grouped(bench.tokens[i - 1])),
                    figure_of(per_token[i - 1]), figure_of(per_token[i] / per_token[i - 1]),
                    std::nullopt}}});
  }
  report.notes.push_back(fmt::format(
      "{} threads, one sequence. oneDNN multiplies all of T x T in strided batches; half of its "
      "time stands for the causal products, without the softmax. Memory: all tensors of both "
      "directions and scratch, as pages are touched.",
      threads));
  return report;
}

}  // namespace quadrille
