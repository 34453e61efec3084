// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/layer_cost.h"

#include <algorithm>
#include <cmath>

namespace quadrille::internal {
namespace {

/// Products and streams of one device in one format.
class Rates {
 public:
  Rates(const TrainingRun& run, const DeviceSpec& device, const CostConstants& constants)
      : device_(device),
        constants_(constants),
        format_(run.format),
        attention_(run.software.vendor_attention ? device.efficiency.attention
                                                 : device.efficiency.attention_portable) {}

  /// [m, k] x [k, n]. A side that is short against the tile leaves units idle at its edge and in
  /// the last wave; a short k does not pay for filling the pipeline.
  [[nodiscard]] double product(double m, double n, double k) const {
    return product_in(format_, m, n, k);
  }
  [[nodiscard]] double wide_product(double m, double n, double k) const {
    return product_in(is_narrow(format_) ? NumberFormat::kBf16 : format_, m, n, k);
  }
  /// Batched small products of unfused attention.
  [[nodiscard]] double batched(double flops, double inner) const {
    const double rate = wide_rate() * constants_.batched_product * inner / (inner + tile());
    return flops / (rate * alignment(inner)) + kernel();
  }
  [[nodiscard]] double fused_attention(double flops, double sequence, double width) const {
    const double filled = sequence / (sequence + constants_.attention_sequence);
    const double wide = width / (width + 16) * (144.0 / 128);  // 1 at a head of 128.
    return flops / (peak(wide_format()) * attention_ * filled * wide) + kernel();
  }
  [[nodiscard]] double stream(double bytes) const {
    return bytes / (device_.memory_bandwidth * device_.efficiency.memory);
  }
  [[nodiscard]] double kernel() const { return device_.efficiency.kernel.count(); }

 private:
  /// Matrix units load 16 bytes at once; heads whose width is no multiple of that fall back to ever
  /// narrower loads, and to kernels with smaller tiles before.
  static double alignment(double width) {
    const auto elements = static_cast<std::int64_t>(width);
    if (elements % 64 == 0) return 1;
    if (elements % 32 == 0) return 0.9;
    if (elements % 16 == 0) return 0.6;
    if (elements % 8 == 0) return 0.35;
    return elements % 4 == 0 ? 0.12 : 0.1;
  }
  static bool is_narrow(NumberFormat format) {
    return format == NumberFormat::kFp8 || format == NumberFormat::kFp4;
  }
  [[nodiscard]] NumberFormat wide_format() const {
    return is_narrow(format_) ? NumberFormat::kBf16 : format_;
  }
  [[nodiscard]] double peak(NumberFormat format) const { return device_.peak_of(format); }
  [[nodiscard]] double tile() const { return device_.efficiency.tile; }
  [[nodiscard]] double wide_rate() const { return peak(wide_format()) * device_.efficiency.matmul; }
  [[nodiscard]] double rate(NumberFormat format) const {
    if (format == NumberFormat::kFp8) return peak(format) * device_.efficiency.matmul_fp8;
    if (format == NumberFormat::kFp4) return peak(format) * device_.efficiency.matmul_fp4;
    return peak(format) * device_.efficiency.matmul;
  }
  [[nodiscard]] double product_in(NumberFormat format, double m, double n, double k) const {
    // Filling and draining take the same time at any rate: in a faster format more products are
    // lost.
    const double speed = is_narrow(format) ? peak(format) / peak(wide_format()) : 1;
    const double side = tile() * speed;
    const double edge = (1 + side / m) * (1 + side / n) * (1 + side / k);
    const double compute = 2 * m * n * k / rate(format) * edge;
    const double traffic = 2 * (m * k + k * n + m * n);
    double seconds = std::max(compute, stream(traffic)) + kernel();
    if (is_narrow(format)) {
      seconds += stream(constants_.quantize_bytes * (m * k + k * n)) + kernel();
    }
    return seconds;
  }

  const DeviceSpec& device_;
  const CostConstants& constants_;
  NumberFormat format_;
  double attention_;
};

struct Sides {
  double tokens, hidden, queries, keys, ffn_in, ffn, tensor, sequences, length;
};

Sides sides_of(const TrainingRun& run) {
  const TransformerShape& model = run.model;
  const auto t = static_cast<double>(run.layout.tensor);
  const auto b = static_cast<double>(run.layout.micro_batch);
  const auto s = static_cast<double>(model.sequence);
  const auto f = static_cast<double>(model.ffn);
  return {.tokens = b * s / static_cast<double>(run.layout.context),
          .hidden = static_cast<double>(model.hidden),
          .queries = static_cast<double>(model.hidden) / t,
          .keys = std::max(model.kv_columns() / t, model.head_width()),
          .ffn_in = (model.gated ? 2 : 1) * f / t,
          .ffn = f / t,
          .tensor = t,
          .sequences = b,
          .length = s};
}

struct Attention {
  double forward, backward;
};

Attention attention_cost(const TrainingRun& run, const Sides& side, const Rates& rates,
                         const CostConstants& constants) {
  const auto c = static_cast<double>(run.layout.context);
  const double scores = side.sequences * side.length * side.length / c;
  const double flops = 4 * scores * side.queries;  // Scores and values, no causal saving.
  if (run.software.flash) {
    const double half = flops / 2;
    const double width = run.model.head_width();
    const double forward = rates.fused_attention(half, side.length, width);
    return {forward,
            constants.attention_backward * rates.fused_attention(2.5 * half, side.length, width)};
  }
  const double heads = static_cast<double>(run.model.heads) / side.tensor;
  const double softmax = rates.stream(constants.softmax_bytes * scores * heads);
  const double products = rates.batched(flops, run.model.head_width());
  return {products + softmax, 2 * products + 1.3 * softmax};
}

/// Bytes per token of norms, residuals, activation function, read and written in 16 bits.
double pointwise_bytes(const TrainingRun& run, const Sides& side, const CostConstants& constants) {
  const double sharded = run.layout.sequence ? side.tensor : 1;
  const double residual = 2 * (2 * 2 + 3 * 2) * side.hidden / sharded;
  const double activation = 2 * (side.ffn_in + side.ffn);
  const double rotary = 2 * 2 * (side.queries + side.keys);
  const double passes = run.software.fused ? 1 : constants.unfused_traffic;
  return passes * (residual + activation + rotary);
}

}  // namespace

LayerCost layer_cost(const TrainingRun& run, const DeviceSpec& device,
                     const CostConstants& constants) {
  const Sides side = sides_of(run);
  const Rates rates(run, device, constants);
  const double n = side.tokens;
  const double qkv = side.queries + 2 * side.keys;

  const double mlp =
      rates.product(n, side.ffn_in, side.hidden) + rates.product(n, side.hidden, side.ffn);
  const double projections =
      rates.product(n, qkv, side.hidden) + rates.product(n, side.hidden, side.queries);
  const double data_gradient =
      rates.product(n, side.hidden, side.ffn_in) + rates.product(n, side.ffn, side.hidden) +
      rates.product(n, side.hidden, qkv) + rates.product(n, side.queries, side.hidden);
  const double weight_gradient =
      rates.product(side.hidden, side.ffn_in, n) + rates.product(side.ffn, side.hidden, n) +
      rates.product(side.hidden, qkv, n) + rates.product(side.queries, side.hidden, n);
  const Attention attention = attention_cost(run, side, rates, constants);
  const double pointwise =
      rates.stream(pointwise_bytes(run, side, constants) * n) + 6 * rates.kernel();

  const double operations =
      run.software.fused ? constants.fused_operations : constants.eager_operations;
  LayerCost cost;
  cost.forward = {mlp + projections + attention.forward + pointwise, operations};
  cost.backward = {data_gradient + weight_gradient + attention.backward + 1.5 * pointwise,
                   1.6 * operations};
  cost.weight_gradient = weight_gradient;
  cost.attention = attention.forward;
  switch (run.layout.recompute) {
    case RecomputeKind::kNone:
      break;
    case RecomputeKind::kSelective:
      cost.again = {attention.forward, 0.2 * operations};
      break;
    case RecomputeKind::kAlternate:
      cost.again = {(mlp + projections) / 2 + pointwise, 0.7 * operations};
      break;
    case RecomputeKind::kFull:
      cost.again = cost.forward;
      break;
  }
  return cost;
}

LayerCost head_cost(const TrainingRun& run, const DeviceSpec& device,
                    const CostConstants& constants) {
  const Sides side = sides_of(run);
  const Rates rates(run, device, constants);
  const double columns = static_cast<double>(run.model.vocab) / side.tensor;
  const double n = side.tokens;
  LayerCost cost;
  cost.forward = {rates.wide_product(n, columns, side.hidden) + rates.stream(14 * n * columns), 8};
  cost.backward = {rates.wide_product(n, side.hidden, columns) +
                       rates.wide_product(side.hidden, columns, n) + rates.stream(8 * n * columns),
                   10};
  return cost;
}

}  // namespace quadrille::internal
