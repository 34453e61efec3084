// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Products by OpenBLAS in its OpenMP flavour, on the caller's pool: a peer.

#include <cblas.h>

#include "bench/products.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

class OpenblasProduct final : public PreparedProduct {
 public:
  explicit OpenblasProduct(const Product& product)
      : product_(product),
        a_(elements(product.m, product.k), 0.5F),
        b_(elements(product.k, product.n), 0.5F),
        c_(elements(product.m, product.n), 0.5F) {
    QD_CHECK(!product.bf16 && product.batch == 1);
  }

  void run() override {
    const auto m = static_cast<blasint>(product_.m);
    const auto n = static_cast<blasint>(product_.n);
    const auto k = static_cast<blasint>(product_.k);
    cblas_sgemm(CblasRowMajor, product_.transpose_a ? CblasTrans : CblasNoTrans,
                product_.transpose_b ? CblasTrans : CblasNoTrans, m, n, k, 1.0F, a_.data(),
                product_.transpose_a ? m : k, b_.data(), product_.transpose_b ? k : n,
                product_.accumulate ? 1.0F : 0.0F, c_.data(), n);
  }

 private:
  static std::size_t elements(std::int64_t rows, std::int64_t columns) {
    return static_cast<std::size_t>(rows * columns);
  }
  Product product_;
  std::vector<float> a_;
  std::vector<float> b_;
  std::vector<float> c_;
};

}  // namespace

std::unique_ptr<PreparedProduct> prepare_openblas(const Product& product) {
  return std::make_unique<OpenblasProduct>(product);
}

}  // namespace quadrille::internal
