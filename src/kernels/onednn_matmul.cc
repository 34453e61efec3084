// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Matrix products by oneDNN. Making a primitive generates code, so each thread keeps the ones it
// has made, by shape and flags: after the first step nothing is created. Scratch memory is the
// thread's own and grows to the largest that any of its primitives asks for.

#include <omp.h>

#include <memory>
#include <oneapi/dnnl/dnnl.hpp>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/host_matmul.h"
#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

using dnnl::memory;

/// All that a primitive's code depends on. The number of threads is part of it: oneDNN cuts the
/// work when it makes the primitive.
struct Key {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  int threads;
  bool transpose_a;
  bool transpose_b;
  bool bias;
  bool accumulate;
  bool bf16;
  friend bool operator==(const Key&, const Key&) = default;
};

struct KeyHash {
  std::size_t operator()(const Key& key) const {
    std::size_t hash = 0;
    for (const std::int64_t part :
         {key.m, key.n, key.k,
          std::int64_t{key.threads} * 32 + key.bf16 * 16 + key.transpose_a * 8 +
              key.transpose_b * 4 + key.bias * 2 + key.accumulate}) {
      hash = (hash ^ static_cast<std::size_t>(part)) * 0x9E3779B97F4A7C15;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

memory::desc matrix(std::int64_t rows, std::int64_t columns, bool transposed,
                    memory::data_type type) {
  const memory::dims strides = transposed ? memory::dims{1, rows} : memory::dims{columns, 1};
  return {{rows, columns}, type, strides};
}

/// A primitive with its arguments bound to memory objects whose addresses each call sets.
struct Prepared {
  dnnl::matmul primitive;
  memory a;
  memory b;
  memory c;
  memory bias;
  memory scratch;
  std::size_t scratch_bytes = 0;
  std::unordered_map<int, memory> arguments;
};

class Library {
 public:
  void run(const HostMatmul& product) {
    Prepared& prepared = prepare(product);
    prepared.a.set_data_handle(const_cast<void*>(product.a));
    prepared.b.set_data_handle(const_cast<void*>(product.b));
    prepared.c.set_data_handle(product.c);
    if (product.bias != nullptr) prepared.bias.set_data_handle(const_cast<float*>(product.bias));
    if (prepared.scratch_bytes > scratch_.size()) scratch_.resize(prepared.scratch_bytes);
    if (prepared.scratch_bytes > 0) prepared.scratch.set_data_handle(scratch_.data());
    prepared.primitive.execute(stream_, prepared.arguments);
    stream_.wait();
  }

 private:
  Prepared& prepare(const HostMatmul& product) {
    const Key key{.m = product.m,
                  .n = product.n,
                  .k = product.k,
                  .threads = omp_get_max_threads(),
                  .transpose_a = product.transpose_a,
                  .transpose_b = product.transpose_b,
                  .bias = product.bias != nullptr,
                  .accumulate = product.accumulate,
                  .bf16 = product.bf16};
    auto& slot = prepared_[key];
    if (slot == nullptr) slot = std::make_unique<Prepared>(make(key));
    return *slot;
  }

  [[nodiscard]] Prepared make(const Key& key) const {
    using Type = memory::data_type;
    const Type factors = key.bf16 ? Type::bf16 : Type::f32;
    const memory::desc a = matrix(key.m, key.k, key.transpose_a, factors);
    const memory::desc b = matrix(key.k, key.n, key.transpose_b, factors);
    const memory::desc c = matrix(key.m, key.n, false, Type::f32);
    const memory::desc bias = matrix(1, key.n, false, Type::f32);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    if (key.accumulate) {
      dnnl::post_ops sum;
      sum.append_sum(1.0F);
      attributes.set_post_ops(sum);
    }
    const dnnl::matmul::desc description =
        key.bias ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
    const dnnl::matmul::primitive_desc chosen(description, attributes, engine_);

    const auto unbound = [&](const memory::desc& shape) {
      return memory(shape, engine_, DNNL_MEMORY_NONE);
    };
    Prepared prepared{.primitive = dnnl::matmul(chosen),
                      .a = unbound(a),
                      .b = unbound(b),
                      .c = unbound(c),
                      .bias = unbound(bias),
                      .scratch = unbound(chosen.scratchpad_desc()),
                      .scratch_bytes = chosen.scratchpad_desc().get_size(),
                      .arguments = {}};
    prepared.arguments = {{DNNL_ARG_SRC, prepared.a},
                          {DNNL_ARG_WEIGHTS, prepared.b},
                          {DNNL_ARG_DST, prepared.c},
                          {DNNL_ARG_SCRATCHPAD, prepared.scratch}};
    if (key.bias) prepared.arguments.emplace(DNNL_ARG_BIAS, prepared.bias);
    return prepared;
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::unordered_map<Key, std::unique_ptr<Prepared>, KeyHash> prepared_;
  std::vector<std::byte> scratch_;
};

}  // namespace

void host_matmul(const HostMatmul& product) {
  try {
    thread_local Library library;
    library.run(product);
  } catch (const dnnl::error& error) {
    check_failed("oneDNN matmul", __FILE__, __LINE__, error.what());
  }
}

bool host_multiplies_bf16() {
  // The sets are masks of features, each a part of those that came after it. AVX-512 without bf16
  // computes it too, by converting: slower than fp32.
  constexpr auto kNeeded = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
  return (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & kNeeded) == kNeeded;
}

const char* host_matmul_library() {
  static const std::string name = [] {
    const dnnl_version_t* version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch);
  }();
  return name.c_str();
}

}  // namespace quadrille::internal
