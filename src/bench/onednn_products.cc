// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Products by oneDNN alone: the yardstick, called as plainly as its examples do.

#include <oneapi/dnnl/dnnl.hpp>
#include <unordered_map>

#include "bench/products.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

using dnnl::memory;

memory::desc matrix(const Product& product, std::int64_t rows, std::int64_t columns,
                    bool transposed, memory::data_type type) {
  const std::int64_t row = transposed ? 1 : columns;
  const std::int64_t column = transposed ? rows : 1;
  if (product.batch == 1) return {{rows, columns}, type, memory::dims{row, column}};
  return {{product.batch, rows, columns}, type, memory::dims{rows * columns, row, column}};
}

class OnednnProduct final : public PreparedProduct {
 public:
  explicit OnednnProduct(const Product& product) {
    using Type = memory::data_type;
    const Type factors = product.bf16 ? Type::bf16 : Type::f32;
    const memory::desc a = matrix(product, product.m, product.k, product.transpose_a, factors);
    const memory::desc b = matrix(product, product.k, product.n, product.transpose_b, factors);
    const memory::desc c = matrix(product, product.m, product.n, false, Type::f32);
    const memory::desc bias = matrix(product, 1, product.n, false, Type::f32);
    dnnl::primitive_attr attributes;
    if (product.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::desc description =
        product.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    primitive_ = dnnl::matmul({description, attributes, engine_});
    arguments_ = {
        {DNNL_ARG_SRC, filled(a)}, {DNNL_ARG_WEIGHTS, filled(b)}, {DNNL_ARG_DST, filled(c)}};
    if (product.bias) arguments_.emplace(DNNL_ARG_BIAS, filled(bias));
  }

  void run() override {
    try {
      primitive_.execute(stream_, arguments_);
      stream_.wait();
    } catch (const dnnl::error& error) {
      check_failed("oneDNN matmul", __FILE__, __LINE__, error.what());
    }
  }

 private:
  [[nodiscard]] memory filled(const memory::desc& shape) const {
    memory made(shape, engine_);
    // 0x3E is 0.19 as the bytes of a float, and of a bf16: no zeros, no NaN.
    auto* bytes = static_cast<unsigned char*>(made.get_data_handle());
    std::fill_n(bytes, shape.get_size(), static_cast<unsigned char>(0x3E));
    return made;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  dnnl::matmul primitive_;
  std::unordered_map<int, memory> arguments_;
};

}  // namespace

std::unique_ptr<PreparedProduct> prepare_onednn(const Product& product) {
  try {
    return std::make_unique<OnednnProduct>(product);
  } catch (const dnnl::error& error) {
    check_failed("oneDNN matmul", __FILE__, __LINE__, error.what());
  }
}

}  // namespace quadrille::internal
