// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Runs each kernel once on fixed inputs, in one thread and at the AVX2 target, and tells valgrind
// where it begins and ends: check_instruction_counts.py counts their instructions. Products of the
// library behind matmul are not among them.

#include <hwy/targets.h>
#include <valgrind/callgrind.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/host_cross_entropy.h"
#include "quadrille/base/random.h"
#include "quadrille/device/device.h"
#include "quadrille/kernels/adamw.h"
#include "quadrille/kernels/attention.h"
#include "quadrille/kernels/embedding.h"
#include "quadrille/kernels/layer_norm.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/kernels/projection.h"
#include "quadrille/kernels/reduction.h"
#include "quadrille/kernels/rms_norm.h"
#include "quadrille/kernels/rotary.h"
#include "quadrille/kernels/sampling.h"
#include "quadrille/kernels/swiglu.h"

namespace quadrille::test {
namespace {

constexpr std::int64_t kSequence = 96;
constexpr std::int64_t kHidden = 192;
constexpr std::int64_t kHeads = 3;
constexpr std::int64_t kVocab = 3001;
const Shape kRows{kSequence, kHidden};

/// Tensors by name, made where they are first asked for.
class Memory {
 public:
  Memory() : device_(make_host_device()), stream_(device_->make_stream()) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() {
    for (const auto& [name, view] : views_) device_->release(view.address(), view.bytes());
  }

  Stream& stream() { return *stream_; }
  TensorView get(const std::string& name, const Shape& shape, DType dtype = DType::kF32) {
    const auto found = views_.find(name);
    if (found != views_.end()) return found->second;
    auto memory = device_->allocate(Bytes(shape.elements() * element_bytes(dtype)));
    QD_CHECK(memory.has_value());
    const TensorView view(device_.get(), *memory, dtype, shape);
    if (dtype == DType::kF32) {
      const RandomStream random(1, RandomPurpose::kTest, views_.size());
      kernels::fill_normal(*stream_, random, 1, view);
    }
    return views_[name] = view;
  }
  TensorView rows(const std::string& name) { return get(name, kRows); }
  TensorView vector(const std::string& name, std::int64_t count = kHidden) {
    return get(name, {count});
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::map<std::string, TensorView> views_;
};

using Case = std::function<void(Memory&)>;
using Cases = std::vector<std::pair<std::string, Case>>;

void add_norms(Cases& cases) {
  cases.emplace_back("layer_norm_forward", [](Memory& m) {
    kernels::layer_norm_forward(m.stream(), {.x = m.rows("x"),
                                             .weight = m.vector("weight"),
                                             .bias = m.vector("bias"),
                                             .y = m.rows("y"),
                                             .mean = m.vector("mean", kSequence),
                                             .rstd = m.vector("rstd", kSequence)});
  });
  cases.emplace_back("layer_norm_backward", [](Memory& m) {
    kernels::layer_norm_backward(m.stream(), {.dy = m.rows("dy"),
                                              .x = m.rows("x"),
                                              .weight = m.vector("weight"),
                                              .mean = m.vector("mean", kSequence),
                                              .rstd = m.vector("rstd", kSequence),
                                              .dx = m.rows("dx"),
                                              .accumulate_dx = true,
                                              .weight_gradient = m.vector("dweight"),
                                              .bias_gradient = m.vector("dbias")});
  });
  cases.emplace_back("rms_norm_forward", [](Memory& m) {
    kernels::rms_norm_forward(m.stream(), {.x = m.rows("x"),
                                           .weight = m.vector("weight"),
                                           .y = m.rows("y"),
                                           .rstd = m.vector("rstd", kSequence)});
  });
  cases.emplace_back("rms_norm_backward", [](Memory& m) {
    kernels::rms_norm_backward(m.stream(), {.dy = m.rows("dy"),
                                            .x = m.rows("x"),
                                            .weight = m.vector("weight"),
                                            .rstd = m.vector("rstd", kSequence),
                                            .dx = m.rows("dx"),
                                            .weight_gradient = m.vector("dweight")});
  });
}

void add_pointwise(Cases& cases) {
  cases.emplace_back("gelu_forward", [](Memory& m) {
    kernels::gelu_forward(m.stream(), m.rows("x"), m.rows("y"));
  });
  cases.emplace_back("gelu_backward", [](Memory& m) {
    kernels::gelu_backward(m.stream(), m.rows("x"), m.rows("dy"), m.rows("dx"));
  });
  cases.emplace_back("swiglu_forward", [](Memory& m) {
    kernels::swiglu_forward(m.stream(), m.rows("x"), m.rows("dy"), m.rows("y"));
  });
  cases.emplace_back("swiglu_backward", [](Memory& m) {
    kernels::swiglu_backward(m.stream(), {.gate = m.rows("x"),
                                          .up = m.rows("y"),
                                          .dy = m.rows("dy"),
                                          .dgate = m.rows("dx"),
                                          .dup = m.rows("dup")});
  });
  cases.emplace_back("dropout_add", [](Memory& m) {
    const kernels::DropoutMask mask{.stream = {1, RandomPurpose::kDropout, 2}, .probability = 0.1F};
    kernels::dropout_add(m.stream(), mask, m.rows("x"), m.rows("y"), m.rows("sum"));
  });
  cases.emplace_back("rotary", [](Memory& m) {
    const Shape shape{1, kSequence, kHidden};
    kernels::rotary(m.stream(), {.queries = m.get("queries", shape),
                                 .keys = m.get("keys", shape),
                                 .frequencies = std::vector<double>(32, 0.01)});
  });
  cases.emplace_back("adamw", [](Memory& m) {
    kernels::adamw(m.stream(), {.parameter = m.rows("parameter"),
                                .gradient = m.rows("gradient"),
                                .first_moment = m.rows("first"),
                                .second_moment = m.rows("zero"),
                                .learning_rate = 1e-3F,
                                .weight_decay = 0.1F});
  });
}

void add_reductions(Cases& cases) {
  cases.emplace_back("add_column_sums", [](Memory& m) {
    kernels::add_column_sums(m.stream(), m.rows("x"), m.vector("dbias"));
  });
  cases.emplace_back("add_sum_of_squares", [](Memory& m) {
    kernels::add_sum_of_squares(m.stream(), m.rows("x"), m.get("double", {1}, DType::kF64));
  });
  cases.emplace_back("sum_in_order", [](Memory& m) {
    const std::vector<TensorView> sources{m.rows("x"), m.rows("y"), m.rows("dy")};
    kernels::sum_in_order(m.stream(), sources, m.rows("sum"));
  });
  cases.emplace_back("cross_entropy", [](Memory& m) {
    const TensorView logits = m.get("logits", {8, kVocab});
    const TensorView targets = m.get("targets", {8}, DType::kI32);
    const double loss = internal::host_cross_entropy({.logits = logits.host<float>(),
                                                      .targets = targets.host<std::int32_t>(),
                                                      .rows = 8,
                                                      .vocab = kVocab,
                                                      .gradient = true});
    QD_CHECK(loss > 0);
  });
  cases.emplace_back("sampling_weights", [](Memory& m) {
    kernels::sampling_weights(m.stream(), {.logits = m.get("next", {1, kVocab}),
                                           .known = kVocab,
                                           .weights = m.get("weights", {1, kVocab}),
                                           .sums = m.get("sums", {1, 12}, DType::kF64),
                                           .best = m.get("best", {1}, DType::kI32)});
  });
  cases.emplace_back("embedding_forward", [](Memory& m) {
    kernels::embedding_forward(m.stream(), {.tokens = m.get("ids", {1, kSequence}, DType::kI32),
                                            .token_table = m.get("table", {kVocab, kHidden}),
                                            .position_table = m.rows("positions"),
                                            .out = m.get("embedded", {1, kSequence, kHidden})});
  });
}

void add_attention(Cases& cases) {
  const auto input = [](Memory& m, const std::string& name, std::int64_t tokens) {
    const TensorView qkv = m.get(name, {1, tokens, 3 * kHidden});
    return kernels::packed_attention_input(qkv, kHeads, kHeads);
  };
  const Shape out{1, kSequence, kHidden};
  const Shape by_row{1, kHeads, kSequence};
  cases.emplace_back("attention_forward", [=](Memory& m) {
    kernels::attention_forward(m.stream(), {.input = input(m, "qkv", kSequence),
                                            .out = m.get("attention", out),
                                            .log_sum_exp = m.get("lse", by_row)});
  });
  cases.emplace_back("attention_backward", [=](Memory& m) {
    kernels::attention_backward(m.stream(), {.input = input(m, "qkv", kSequence),
                                             .out = m.get("attention", out),
                                             .log_sum_exp = m.get("lse", by_row),
                                             .dout = m.get("dattention", out),
                                             .delta = m.get("delta", by_row),
                                             .gradient = input(m, "dqkv", kSequence)});
  });
  cases.emplace_back("attention_cached", [=](Memory& m) {
    const Shape cache{1, kHeads, 256, kHidden / kHeads};
    kernels::attention_cached(m.stream(), {.input = input(m, "new qkv", 1),
                                           .sequences = {{0, 200}},
                                           .key_cache = m.get("key cache", cache),
                                           .value_cache = m.get("value cache", cache),
                                           .out = m.get("new attention", {1, 1, kHidden})});
  });
}

void add_projections(Cases& cases) {
  for (const std::int64_t rows : {1, 8}) {
    const auto x = [=](Memory& m) {
      return m.get("x of " + std::to_string(rows), {rows, kHidden});
    };
    const auto y = [=](Memory& m) { return m.get("y of " + std::to_string(rows), {rows, 512}); };
    cases.emplace_back("projection_" + std::to_string(rows), [=](Memory& m) {
      kernels::projection(
          m.stream(),
          {.x = x(m), .weight = m.get("matrix", {512, kHidden}), .bias = {}, .y = y(m)});
    });
    cases.emplace_back("projection_bf16_" + std::to_string(rows), [=](Memory& m) {
      kernels::projection(m.stream(), {.x = x(m),
                                       .weight = m.get("halves", {512, 2 * kHidden}, DType::kU8),
                                       .bias = {},
                                       .y = y(m)});
    });
  }
  cases.emplace_back("to_bf16", [](Memory& m) {
    kernels::to_bf16(m.stream(), m.get("matrix", {512, kHidden}),
                     m.get("halves", {512, 2 * kHidden}, DType::kU8));
  });
}

}  // namespace

}  // namespace quadrille::test

int main() {
  using namespace quadrille::test;
  hwy::SetSupportedTargetsForTest(HWY_AVX2);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  Cases cases;
  add_norms(cases);
  add_pointwise(cases);
  add_reductions(cases);
  add_attention(cases);
  add_projections(cases);
  Memory memory;
  quadrille::kernels::fill(memory.stream(), memory.rows("zero"), 0);
  for (const auto& [name, run] : cases) {
    run(memory);  // memory, and what is made on first use
    CALLGRIND_ZERO_STATS;
    run(memory);
    CALLGRIND_DUMP_STATS_AT(name.c_str());
  }
  return 0;
}
