// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/bench/roofs.h"

#include <algorithm>

#include "bench/folder.h"
#include "bench/limits.h"
#include "bench/products.h"
#include "quadrille/bench/report.h"
#include "quadrille/kernels/rounding.h"

namespace quadrille {
namespace {

constexpr int kRepetitions = 3;
constexpr std::int64_t kLeastBytes = std::int64_t{64} << 10;
constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;

/// "NT bf16" of [m, n, k], or nothing where the operation is something else.
std::optional<internal::Product> product_of(const OperationProfile& operation) {
  const auto& [m, n, k, more] = operation.extents;
  const bool is_product = operation.name == "matmul" && m > 0 && n > 0 && k > 0 && more == 0;
  if (!is_product || operation.variant.size() < 2) return std::nullopt;
  const bool bf16 = operation.variant.ends_with("bf16") &&
                    kernels::bf16_products() == kernels::ProductPrecision::kBf16;
  return internal::Product{.name = operation.key(),
                           .m = m,
                           .n = n,
                           .k = k,
                           .transpose_a = operation.variant[0] == 'T',
                           .transpose_b = operation.variant[1] == 'T',
                           .bf16 = bf16};
}

double rate_of(const internal::Product& product) {
  const auto prepared = internal::prepare_onednn(product);
  const auto seconds = internal::time_calls([&] { prepared->run(); }, kRepetitions);
  return product.flops() / *std::min_element(seconds.begin(), seconds.end());
}

/// Of calls that move about as many bytes, rounded up to a power of four.
class MemoryRates {
 public:
  double of(double bytes_per_call) {
    std::int64_t size = kLeastBytes;
    while (size < kMostBytes && static_cast<double>(size) < bytes_per_call) size *= 4;
    const auto [place, is_new] = rates_.try_emplace(size, 0.0);
    if (is_new) place->second = measure(size);
    return place->second;
  }

 private:
  static double measure(std::int64_t size) {
    internal::Traffic traffic(2, size / 2);
    const auto best = [](const std::vector<double>& rates) {
      return *std::max_element(rates.begin(), rates.end());
    };
    return std::max(best(internal::bandwidth(
                        traffic, 4, [&] { traffic.accumulate(); }, kRepetitions)),
                    best(internal::bandwidth(
                        traffic, 2, [&] { traffic.copy(); }, kRepetitions)));
  }
  std::map<std::int64_t, double> rates_;
};

}  // namespace

Result<Roofs> measure_roofs(const StepsProfile& profile) {
  QD_RETURN_IF_ERROR(internal::bind_pool(std::max(profile.threads, 1)));
  Roofs roofs;
  double best = 0;
  for (const OperationProfile& operation : profile.operations) {
    const auto product = product_of(operation);
    if (!product) continue;
    const double rate = rate_of(*product);
    roofs[operation.key()].flops_per_second = rate;
    best = std::max(best, rate);
  }
  if (best <= 0) best = internal::multiply_add_peak();
  MemoryRates memory;
  for (const OperationProfile& operation : profile.operations) {
    // A collective's bytes are those of its tensor, not those that it moves.
    if (operation.calls == 0 || operation.is_collective()) continue;
    Roof& roof = roofs[operation.key()];
    if (operation.flops > Flops() && roof.flops_per_second <= 0) roof.flops_per_second = best;
    const double bytes = operation.bytes / static_cast<double>(operation.calls);
    if (bytes > 0) roof.bytes_per_second = memory.of(bytes);
  }
  return roofs;
}

}  // namespace quadrille
