// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/products.h"

#include <algorithm>

#include "quadrille/base/units.h"
#include "quadrille/device/device.h"
#include "quadrille/kernels/matmul.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/memory/pool.h"

namespace quadrille::internal {
namespace {

struct Linear {
  const char* name;
  std::int64_t inputs;
  std::int64_t outputs;
  bool bias;
  std::int64_t times;
};

/// kernels::matmul on tensors of its own.
class OurProduct final : public PreparedProduct {
 public:
  explicit OurProduct(const Product& product)
      : device_(make_host_device()),
        stream_(device_->make_stream()),
        pool_(Pool::create({device_.get(), Bytes(0), "products"}).value()) {
    const std::int64_t m = product.m;
    const std::int64_t n = product.n;
    const std::int64_t k = product.k;
    arguments_ = {.a = tensor(product.transpose_a ? Shape{k, m} : Shape{m, k}),
                  .b = tensor(product.transpose_b ? Shape{n, k} : Shape{k, n}),
                  .c = tensor({m, n}),
                  .transpose_a = product.transpose_a,
                  .transpose_b = product.transpose_b,
                  .bias = product.bias ? tensor({n}) : TensorView(),
                  .accumulate = product.accumulate};
    if (product.bf16) {
      const std::int64_t scratch =
          kernels::rounding_elements(m * k) + kernels::rounding_elements(k * n);
      arguments_.rounding = {kernels::bf16_products(), tensor({scratch})};
    }
  }
  void run() override { kernels::matmul(*stream_, arguments_); }

 private:
  TensorView tensor(const Shape& shape) {
    leases_.push_back(pool_
                          ->lease(Bytes(shape.elements() * element_bytes(DType::kF32)),
                                  MemoryTag::kWorkspace, "a factor")
                          .value());
    const TensorView view = leases_.back().view(DType::kF32, shape);
    kernels::fill(*stream_, view, 0.5F);
    return view;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Pool> pool_;
  std::vector<Lease> leases_;
  kernels::Matmul arguments_;
};

/// How many calls fill about 5 ms, so that the clock and the pool's waking do not count.
std::int64_t calls_per_sample(const std::function<void()>& call) {
  constexpr double kSample = 5e-3;
  call();
  const Seconds begin = monotonic_now();
  call();
  const double once = std::max((monotonic_now() - begin).count(), 1e-9);
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(kSample / once), 1, 10'000);
}

double seconds_of(const std::function<void()>& call, std::int64_t calls) {
  const Seconds begin = monotonic_now();
  for (std::int64_t i = 0; i < calls; ++i) call();
  return (monotonic_now() - begin).count() / static_cast<double>(calls);
}

}  // namespace

std::vector<Product> step_products(const ModelSpec& model, std::int64_t tokens, bool bf16) {
  const std::int64_t layers = model.layers;
  const std::vector<Linear> linears{
      {"qkv", model.hidden, model.qkv_columns(), model.bias, layers},
      {"attention projection", model.query_columns(), model.hidden, model.bias, layers},
      {"expansion", model.hidden, model.expanded_columns(), model.bias, layers},
      {"contraction", model.ffn, model.hidden, model.bias, layers},
      {"head", model.hidden, model.vocab, false, 1}};
  std::vector<Product> products;
  for (const Linear& linear : linears) {
    const std::string name = linear.name;
    // Y = X W^T with W [outputs, inputs]; dX = dY W; dW += dY^T X.
    products.push_back({.name = name + " forward",
                        .m = tokens,
                        .n = linear.outputs,
                        .k = linear.inputs,
                        .transpose_b = true,
                        .bias = linear.bias,
                        .bf16 = bf16,
                        .times = linear.times});
    products.push_back({.name = name + " to input",
                        .m = tokens,
                        .n = linear.inputs,
                        .k = linear.outputs,
                        .bf16 = bf16,
                        .times = linear.times});
    products.push_back({.name = name + " to weight",
                        .m = linear.outputs,
                        .n = linear.inputs,
                        .k = tokens,
                        .transpose_a = true,
                        .accumulate = true,
                        .bf16 = bf16,
                        .times = linear.times});
  }
  return products;
}

std::unique_ptr<PreparedProduct> prepare_ours(const Product& product) {
  return std::make_unique<OurProduct>(product);
}

ProductSum::ProductSum(const std::vector<Product>& products) {
  for (const Product& product : products) {
    prepared_.emplace_back(prepare_onednn(product), product.times);
    prepared_.back().first->run();
  }
}

double ProductSum::run() {
  const Seconds begin = monotonic_now();
  for (const auto& [product, times] : prepared_) {
    for (std::int64_t i = 0; i < times; ++i) product->run();
  }
  return (monotonic_now() - begin).count();
}

std::vector<double> time_calls(const std::function<void()>& call, int repetitions) {
  return time_interleaved({call}, repetitions).front();
}

std::vector<std::vector<double>> time_interleaved(const std::vector<std::function<void()>>& calls,
                                                  int repetitions) {
  std::vector<std::int64_t> counts;
  for (const auto& call : calls) counts.push_back(calls_per_sample(call));
  std::vector<std::vector<double>> seconds(calls.size());
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (std::size_t i = 0; i < calls.size(); ++i) {
      seconds[i].push_back(seconds_of(calls[i], counts[i]));
    }
  }
  return seconds;
}

}  // namespace quadrille::internal
