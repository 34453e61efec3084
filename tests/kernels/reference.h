// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The operations in float64, written to be read: one loop per symbol of the formula. Gradients have
// no reference of their own; tests take central differences of these.

#include <cmath>
#include <complex>
#include <cstdint>
#include <numbers>
#include <vector>

namespace quadrille::test {

using Numbers = std::vector<double>;
using Ids = std::vector<std::int32_t>;

inline double& at(Numbers& x, std::int64_t i) { return x[static_cast<std::size_t>(i)]; }
inline double at(const Numbers& x, std::int64_t i) { return x[static_cast<std::size_t>(i)]; }

struct MatmulExtents {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
};
inline Numbers reference_matmul(const Numbers& a, const Numbers& b, const MatmulExtents& e) {
  Numbers c(static_cast<std::size_t>(e.m * e.n));
  for (std::int64_t i = 0; i < e.m; ++i) {
    for (std::int64_t j = 0; j < e.n; ++j) {
      for (std::int64_t p = 0; p < e.k; ++p) {
        at(c, i * e.n + j) += at(a, e.transpose_a ? p * e.m + i : i * e.k + p) *
                              at(b, e.transpose_b ? j * e.k + p : p * e.n + j);
      }
    }
  }
  return c;
}

inline Numbers reference_gelu(const Numbers& x) {
  Numbers y;
  for (const double v : x) {
    const double u = std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
    y.push_back(v / 2 * (1 + std::tanh(u)));
  }
  return y;
}

/// x [N, H]; an empty bias adds nothing.
inline Numbers reference_layer_norm(const Numbers& x, const Numbers& weight, const Numbers& bias,
                                    double epsilon) {
  const auto width = static_cast<std::int64_t>(weight.size());
  Numbers y(x.size());
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(x.size()) / width; ++row) {
    double mean = 0;
    for (std::int64_t i = 0; i < width; ++i) mean += at(x, row * width + i);
    mean /= static_cast<double>(width);
    double variance = 0;
    for (std::int64_t i = 0; i < width; ++i) {
      variance += std::pow(at(x, row * width + i) - mean, 2);
    }
    variance /= static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      at(y, row * width + i) =
          (at(x, row * width + i) - mean) / std::sqrt(variance + epsilon) * at(weight, i) +
          (bias.empty() ? 0 : at(bias, i));
    }
  }
  return y;
}

/// x [N, H].
inline Numbers reference_rms_norm(const Numbers& x, const Numbers& weight, double epsilon) {
  const auto width = static_cast<std::int64_t>(weight.size());
  Numbers y(x.size());
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(x.size()) / width; ++row) {
    double mean_square = 0;
    for (std::int64_t i = 0; i < width; ++i) mean_square += std::pow(at(x, row * width + i), 2);
    mean_square /= static_cast<double>(width);
    for (std::int64_t i = 0; i < width; ++i) {
      at(y, row * width + i) =
          at(x, row * width + i) / std::sqrt(mean_square + epsilon) * at(weight, i);
    }
  }
  return y;
}

inline Numbers reference_swiglu(const Numbers& gate, const Numbers& up) {
  Numbers y;
  for (std::size_t i = 0; i < gate.size(); ++i) {
    y.push_back(gate[i] / (1 + std::exp(-gate[i])) * up[i]);
  }
  return y;
}

struct RotaryExtents {
  std::int64_t sequence = 0;
  std::int64_t columns = 0;  // heads * D
};
/// x [B, T, columns] as complex numbers x[i] + i x[i + D/2] times e^(i position frequency).
inline Numbers reference_rotary(const Numbers& x, const Numbers& frequencies, std::int64_t first,
                                const RotaryExtents& e) {
  Numbers y = x;
  const auto half = static_cast<std::int64_t>(frequencies.size());
  for (std::int64_t row = 0; row < static_cast<std::int64_t>(x.size()) / e.columns; ++row) {
    const auto position = static_cast<double>(first + row % e.sequence);
    for (std::int64_t head = 0; head < e.columns / (2 * half); ++head) {
      for (std::int64_t i = 0; i < half; ++i) {
        const std::int64_t place = row * e.columns + head * 2 * half + i;
        const std::complex<double> turned = std::complex(at(x, place), at(x, place + half)) *
                                            std::polar(1.0, position * at(frequencies, i));
        at(y, place) = turned.real();
        at(y, place + half) = turned.imag();
      }
    }
  }
  return y;
}

struct AttentionExtents {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t heads = 0;
  std::int64_t width = 0;     // D
  std::int64_t kv_heads = 0;  // 0: as many as heads
  [[nodiscard]] std::int64_t shared() const { return kv_heads == 0 ? heads : kv_heads; }
};
struct AttentionResult {
  Numbers out;
  Numbers log_sum_exp;
};
/// qkv [B, T, (A + 2K)*D] -> out [B, T, A*D], log_sum_exp [B, A, T].
inline AttentionResult reference_attention(const Numbers& qkv, const AttentionExtents& e) {
  const std::int64_t model = e.heads * e.width;
  AttentionResult result{Numbers(static_cast<std::size_t>(e.batch * e.sequence * model)),
                         Numbers(static_cast<std::size_t>(e.batch * e.heads * e.sequence))};
  const std::int64_t columns = (e.heads + 2 * e.shared()) * e.width;
  const auto part = [&](int which, std::int64_t b, std::int64_t t, std::int64_t h, std::int64_t d) {
    const std::int64_t shared = h / (e.heads / e.shared());
    const std::int64_t head = which == 0   ? h
                              : which == 1 ? e.heads + shared
                                           : e.heads + e.shared() + shared;
    return at(qkv, (b * e.sequence + t) * columns + head * e.width + d);
  };
  for (std::int64_t b = 0; b < e.batch; ++b) {
    for (std::int64_t h = 0; h < e.heads; ++h) {
      for (std::int64_t t = 0; t < e.sequence; ++t) {
        Numbers score(static_cast<std::size_t>(t + 1));
        double sum = 0;
        for (std::int64_t s = 0; s <= t; ++s) {
          for (std::int64_t d = 0; d < e.width; ++d) {
            at(score, s) += part(0, b, t, h, d) * part(1, b, s, h, d);
          }
          at(score, s) /= std::sqrt(static_cast<double>(e.width));
          sum += std::exp(at(score, s));
        }
        at(result.log_sum_exp, (b * e.heads + h) * e.sequence + t) = std::log(sum);
        for (std::int64_t s = 0; s <= t; ++s) {
          for (std::int64_t d = 0; d < e.width; ++d) {
            at(result.out, (b * e.sequence + t) * model + h * e.width + d) +=
                std::exp(at(score, s)) / sum * part(2, b, s, h, d);
          }
        }
      }
    }
  }
  return result;
}

/// Sum over rows of -log softmax(x W^T)[target]; x [N, H], weight [V, H].
inline double reference_head_loss(const Numbers& x, const Numbers& weight, const Ids& targets) {
  const auto rows = static_cast<std::int64_t>(targets.size());
  const std::int64_t width = static_cast<std::int64_t>(x.size()) / rows;
  const std::int64_t vocab = static_cast<std::int64_t>(weight.size()) / width;
  const Numbers logits =
      reference_matmul(x, weight, {.m = rows, .n = vocab, .k = width, .transpose_b = true});
  double loss = 0;
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t target = targets[static_cast<std::size_t>(row)];
    if (target < 0) continue;
    double sum = 0;
    for (std::int64_t v = 0; v < vocab; ++v) sum += std::exp(at(logits, row * vocab + v));
    loss += std::log(sum) - at(logits, row * vocab + target);
  }
  return loss;
}

}  // namespace quadrille::test
