// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Matrix products of a model's step, and runners that compute them by a library alone: what a step
// is held against. Each kind has one set of buffers, which the calls of that kind share: products
// of warm operands, the hardest to be compared with.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "quadrille/config/job_spec.h"

namespace quadrille::internal {

/// C [m, n] = op(A) op(B), + bias or += as a training step does.
struct Product {
  std::string name;  ///< "qkv forward"
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  bool accumulate = false;
  bool bf16 = false;       ///< A and B; C is fp32.
  std::int64_t times = 1;  ///< In a step.
  std::int64_t batch = 1;  ///< Products of their own matrices in one call.

  [[nodiscard]] double flops() const {
    return 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
           static_cast<double>(k);
  }
};

/// Forward, to the input's gradient and to the weight's, of the linear layers and the head: 15
/// kinds for GPT-2.
[[nodiscard]] std::vector<Product> step_products(const ModelSpec& model, std::int64_t tokens,
                                                 bool bf16);

/// Calls made ready: buffers filled, code generated.
class PreparedProduct {
 public:
  virtual ~PreparedProduct() = default;
  /// Once, on the calling thread's pool.
  virtual void run() = 0;
};
/// By oneDNN, with plain row-major operands.
[[nodiscard]] std::unique_ptr<PreparedProduct> prepare_onednn(const Product& product);
/// By OpenBLAS; fp32 and one matrix alone.
[[nodiscard]] std::unique_ptr<PreparedProduct> prepare_openblas(const Product& product);
/// By kernels::matmul.
[[nodiscard]] std::unique_ptr<PreparedProduct> prepare_ours(const Product& product);

/// All products of a step by oneDNN.
class ProductSum {
 public:
  explicit ProductSum(const std::vector<Product>& products);
  /// Runs them all; seconds.
  [[nodiscard]] double run();

 private:
  std::vector<std::pair<std::unique_ptr<PreparedProduct>, std::int64_t>> prepared_;
};

/// Seconds of one call: the median of `repetitions`, each of as many calls as take 5 ms.
[[nodiscard]] std::vector<double> time_calls(const std::function<void()>& call, int repetitions);
/// The same for several calls, interleaved: a row of seconds for each.
[[nodiscard]] std::vector<std::vector<double>> time_interleaved(
    const std::vector<std::function<void()>>& calls, int repetitions);

}  // namespace quadrille::internal
