// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Matrix products by OpenBLAS, in its OpenMP flavour: it computes with the rank's own pool.

#include <cblas.h>

#include <algorithm>
#include <limits>
#include <sstream>
#include <string>

#include "kernels/host_matmul.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

blasint narrow(std::int64_t extent) {
  QD_CHECK_MSG(extent <= std::numeric_limits<blasint>::max(), "an extent exceeds OpenBLAS's int");
  return static_cast<blasint>(extent);
}

void copy_bias(const HostMatmul& product) {
#pragma omp parallel for schedule(static)
  for (std::int64_t row = 0; row < product.m; ++row) {
    std::copy_n(product.bias, product.n, product.c + row * product.n);
  }
}

}  // namespace

void host_matmul(const HostMatmul& product) {
  QD_CHECK_MSG(!product.bf16, "OpenBLAS multiplies fp32");
  if (product.bias != nullptr) copy_bias(product);
  const bool adds = product.accumulate || product.bias != nullptr;
  cblas_sgemm(CblasRowMajor, product.transpose_a ? CblasTrans : CblasNoTrans,
              product.transpose_b ? CblasTrans : CblasNoTrans, narrow(product.m), narrow(product.n),
              narrow(product.k), 1.0F, static_cast<const float*>(product.a),
              narrow(product.transpose_a ? product.m : product.k),
              static_cast<const float*>(product.b),
              narrow(product.transpose_b ? product.k : product.n), adds ? 1.0F : 0.0F, product.c,
              narrow(product.n));
}

bool host_multiplies_bf16() { return false; }

const char* host_matmul_library() {
  // openblas_get_config() starts with "OpenBLAS 0.3.21 ".
  static const std::string name = [] {
    std::istringstream words(openblas_get_config());
    std::string library;
    std::string version;
    words >> library >> version;
    return library + " " + version;
  }();
  return name.c_str();
}

}  // namespace quadrille::internal
