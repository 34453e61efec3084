// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The host's kernels at the shapes of the demo model (16 sequences of 256 tokens, hidden 256, 8
// heads, vocabulary 256) and at T = 1024. Matrix products and attention report GFLOP/s ("flops"),
// to be read beside the products' own; the rest report bytes that an ideal single pass moves, to be
// read beside `copy`, which moves two. Wall time, all cores of the pool; threads as OMP_NUM_THREADS
// says.

#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "quadrille/device/device.h"
#include "quadrille/kernels/adamw.h"
#include "quadrille/kernels/attention.h"
#include "quadrille/kernels/head_loss.h"
#include "quadrille/kernels/layer_norm.h"
#include "quadrille/kernels/matmul.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/kernels/reduction.h"

namespace quadrille {
namespace {

constexpr std::int64_t kRows = 4096;
constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kVocab = 256;
constexpr std::int64_t kParameters = 5'000'000;

/// Tensors on the host that live as long as the fixture, filled with normal numbers.
class Fixture {
 public:
  Fixture() : device_(make_host_device()), stream_(device_->make_stream()) {}
  Fixture(const Fixture&) = delete;
  Fixture& operator=(const Fixture&) = delete;
  ~Fixture() {
    for (const TensorView& view : views_) device_->release(view.address(), view.bytes());
  }

  TensorView tensor(const Shape& shape, DType dtype = DType::kF32) {
    auto memory = device_->allocate(Bytes(shape.elements() * element_bytes(dtype)));
    QD_CHECK(memory.has_value());
    views_.emplace_back(device_.get(), *memory, dtype, shape);
    if (dtype == DType::kF32) {
      const RandomStream random(1, RandomPurpose::kTest, views_.size());
      kernels::fill_normal(*stream_, random, 1, views_.back());
    }
    return views_.back();
  }
  Stream& stream() { return *stream_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::vector<TensorView> views_;
};

void report_flops(benchmark::State& state, double flops_per_call) {
  state.counters["flops"] = benchmark::Counter(
      flops_per_call, benchmark::Counter::kIsIterationInvariantRate, benchmark::Counter::kIs1000);
}
void report_bytes(benchmark::State& state, std::int64_t bytes_per_call) {
  state.SetBytesProcessed(state.iterations() * bytes_per_call);
}

void matmul(benchmark::State& state) {
  const std::int64_t m = state.range(0);
  const std::int64_t n = state.range(1);
  const std::int64_t k = state.range(2);
  const bool transpose_a = state.range(3) == 1;
  const bool transpose_b = state.range(3) == 2;
  Fixture fixture;
  const kernels::Matmul arguments{.a = fixture.tensor(transpose_a ? Shape{k, m} : Shape{m, k}),
                                  .b = fixture.tensor(transpose_b ? Shape{n, k} : Shape{k, n}),
                                  .c = fixture.tensor({m, n}),
                                  .transpose_a = transpose_a,
                                  .transpose_b = transpose_b,
                                  .bias = {},
                                  .accumulate = transpose_a};
  for (auto _ : state) kernels::matmul(fixture.stream(), arguments);
  report_flops(state,
               2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k));
}
BENCHMARK(matmul)
    ->ArgNames({"m", "n", "k", "transpose"})
    ->UseRealTime()
    ->Args({kRows, 3 * kHidden, kHidden, 0})
    ->Args({kRows, kHidden, kHidden, 0})
    ->Args({kRows, 4 * kHidden, kHidden, 0})
    ->Args({kRows, kHidden, 4 * kHidden, 0})
    ->Args({kRows, 4 * kHidden, kHidden, 2})
    ->Args({kHidden, 4 * kHidden, kRows, 1})
    ->Args({kHidden, kHidden, kRows, 1})
    ->Args({4 * kHidden, kHidden, kRows, 1});

struct AttentionTensors {
  TensorView qkv;
  TensorView out;
  TensorView rows;
  TensorView delta;
  TensorView dqkv;
};
AttentionTensors attention_tensors(Fixture& fixture, std::int64_t sequence) {
  const std::int64_t batch = kRows / sequence;
  return {.qkv = fixture.tensor({batch, sequence, 3 * kHidden}),
          .out = fixture.tensor({batch, sequence, kHidden}),
          .rows = fixture.tensor({batch, kHeads, sequence}),
          .delta = fixture.tensor({batch, kHeads, sequence}),
          .dqkv = fixture.tensor({batch, sequence, 3 * kHidden})};
}
/// FLOPs of one product over the causal half.
double causal_product(std::int64_t sequence) {
  return static_cast<double>(kRows) * static_cast<double>(kHidden) * static_cast<double>(sequence);
}

void attention_forward(benchmark::State& state) {
  Fixture fixture;
  const AttentionTensors t = attention_tensors(fixture, state.range(0));
  for (auto _ : state) {
    kernels::attention_forward(fixture.stream(),
                               {.input = kernels::packed_attention_input(t.qkv, kHeads, kHeads),
                                .out = t.out,
                                .log_sum_exp = t.rows});
  }
  report_flops(state, 2 * causal_product(state.range(0)));
}
BENCHMARK(attention_forward)->UseRealTime()->Arg(256)->Arg(1024);

void attention_backward(benchmark::State& state) {
  Fixture fixture;
  const AttentionTensors t = attention_tensors(fixture, state.range(0));
  const TensorView dout = fixture.tensor(t.out.shape());
  kernels::attention_forward(fixture.stream(),
                             {.input = kernels::packed_attention_input(t.qkv, kHeads, kHeads),
                              .out = t.out,
                              .log_sum_exp = t.rows});
  for (auto _ : state) {
    kernels::attention_backward(
        fixture.stream(), {.input = kernels::packed_attention_input(t.qkv, kHeads, kHeads),
                           .out = t.out,
                           .log_sum_exp = t.rows,
                           .dout = dout,
                           .delta = t.delta,
                           .gradient = kernels::packed_attention_input(t.dqkv, kHeads, kHeads)});
  }
  report_flops(state, 5 * causal_product(state.range(0)));
}
BENCHMARK(attention_backward)->UseRealTime()->Arg(256)->Arg(1024);

void layer_norm_forward(benchmark::State& state) {
  Fixture fixture;
  const kernels::LayerNormForward arguments{.x = fixture.tensor({kRows, kHidden}),
                                            .weight = fixture.tensor({kHidden}),
                                            .bias = fixture.tensor({kHidden}),
                                            .y = fixture.tensor({kRows, kHidden}),
                                            .mean = fixture.tensor({kRows}),
                                            .rstd = fixture.tensor({kRows})};
  for (auto _ : state) kernels::layer_norm_forward(fixture.stream(), arguments);
  report_bytes(state, 2 * kRows * kHidden * 4);
}
BENCHMARK(layer_norm_forward)->UseRealTime();

void layer_norm_backward(benchmark::State& state) {
  Fixture fixture;
  const kernels::LayerNormBackward arguments{.dy = fixture.tensor({kRows, kHidden}),
                                             .x = fixture.tensor({kRows, kHidden}),
                                             .weight = fixture.tensor({kHidden}),
                                             .mean = fixture.tensor({kRows}),
                                             .rstd = fixture.tensor({kRows}),
                                             .dx = fixture.tensor({kRows, kHidden}),
                                             .accumulate_dx = false,
                                             .weight_gradient = fixture.tensor({kHidden}),
                                             .bias_gradient = fixture.tensor({kHidden})};
  for (auto _ : state) kernels::layer_norm_backward(fixture.stream(), arguments);
  report_bytes(state, 3 * kRows * kHidden * 4);
}
BENCHMARK(layer_norm_backward)->UseRealTime();

void gelu_forward(benchmark::State& state) {
  Fixture fixture;
  const TensorView x = fixture.tensor({kRows, 4 * kHidden});
  const TensorView y = fixture.tensor({kRows, 4 * kHidden});
  for (auto _ : state) kernels::gelu_forward(fixture.stream(), x, y);
  report_bytes(state, 2 * x.bytes().count());
}
BENCHMARK(gelu_forward)->UseRealTime();

void gelu_backward(benchmark::State& state) {
  Fixture fixture;
  const TensorView x = fixture.tensor({kRows, 4 * kHidden});
  const TensorView dy = fixture.tensor({kRows, 4 * kHidden});
  for (auto _ : state) kernels::gelu_backward(fixture.stream(), x, dy, dy);
  report_bytes(state, 3 * x.bytes().count());
}
BENCHMARK(gelu_backward)->UseRealTime();

void dropout_add(benchmark::State& state) {
  Fixture fixture;
  const TensorView x = fixture.tensor({kRows, kHidden});
  const TensorView residual = fixture.tensor({kRows, kHidden});
  const kernels::DropoutMask mask{.stream = RandomStream(1, RandomPurpose::kDropout, 1),
                                  .probability = 0.1F};
  for (auto _ : state) kernels::dropout_add(fixture.stream(), mask, x, residual, residual);
  report_bytes(state, 3 * x.bytes().count());
}
BENCHMARK(dropout_add)->UseRealTime();

void column_sums(benchmark::State& state) {
  Fixture fixture;
  const TensorView dy = fixture.tensor({kRows, 4 * kHidden});
  const TensorView sums = fixture.tensor({4 * kHidden});
  for (auto _ : state) kernels::add_column_sums(fixture.stream(), dy, sums);
  report_bytes(state, dy.bytes().count());
}
BENCHMARK(column_sums)->UseRealTime();

void head_loss(benchmark::State& state) {
  Fixture fixture;
  const kernels::HeadLoss arguments{
      .x = fixture.tensor({kRows, kHidden}),
      .weight = fixture.tensor({kVocab, kHidden}),
      .targets = fixture.tensor({kRows}, DType::kI32),
      .loss_sum = fixture.tensor({1}, DType::kF64),
      .workspace = fixture.tensor({kernels::head_loss_chunk(kRows, kVocab), kVocab}),
      .dx = fixture.tensor({kRows, kHidden}),
      .weight_gradient = fixture.tensor({kVocab, kHidden})};
  for (auto _ : state) kernels::head_loss(fixture.stream(), arguments);
  report_flops(state, 6.0 * kRows * kHidden * kVocab);
}
BENCHMARK(head_loss)->UseRealTime();

void adamw(benchmark::State& state) {
  Fixture fixture;
  const kernels::AdamW arguments{.parameter = fixture.tensor({kParameters}),
                                 .gradient = fixture.tensor({kParameters}),
                                 .first_moment = fixture.tensor({kParameters}),
                                 .second_moment = fixture.tensor({kParameters}),
                                 .learning_rate = 1e-3F,
                                 .weight_decay = 0.1F};
  for (auto _ : state) kernels::adamw(fixture.stream(), arguments);
  report_bytes(state, 7 * kParameters * 4);
}
BENCHMARK(adamw)->UseRealTime();

void sum_of_squares(benchmark::State& state) {
  Fixture fixture;
  const TensorView x = fixture.tensor({kParameters});
  const TensorView result = fixture.tensor({1}, DType::kF64);
  for (auto _ : state) kernels::add_sum_of_squares(fixture.stream(), x, result);
  report_bytes(state, x.bytes().count());
}
BENCHMARK(sum_of_squares)->UseRealTime();

void copy(benchmark::State& state) {
  Fixture fixture;
  const TensorView source = fixture.tensor({state.range(0)});
  const TensorView target = fixture.tensor({state.range(0)});
  for (auto _ : state) kernels::copy(fixture.stream(), source, target);
  report_bytes(state, 2 * source.bytes().count());
}
BENCHMARK(copy)->UseRealTime()->Arg(kRows* kHidden)->Arg(4 * kParameters);

}  // namespace
}  // namespace quadrille
