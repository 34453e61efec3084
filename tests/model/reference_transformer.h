// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// GPT-2 written plainly in float64: one sequence at a time, loops over positions, whole score rows.
// Only the forward pass is written; gradients come from the tape.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numbers>
#include <string>
#include <vector>

#include "model/tape.h"
#include "quadrille/base/random.h"
#include "quadrille/config/model_shapes.h"

namespace quadrille::testing {

using Values = std::vector<float>;
using NamedValues = std::map<std::string, Values>;

/// Rows of a batch, and where each stands in the global batch.
struct ReferenceBatch {
  std::int64_t sequence = 0;                      ///< T
  std::vector<std::vector<std::int32_t>> tokens;  ///< B rows of T
  std::vector<std::vector<std::int32_t>> targets;
  std::vector<std::int64_t> global_sequences;
  std::int64_t step = 0;
  std::uint64_t seed = 1;
  bool training = true;
};

class ReferenceTransformer {
 public:
  using Vector = std::vector<Number>;
  using Rows = std::vector<Vector>;  // [T][...]

  ReferenceTransformer(const ModelSpec& spec, const NamedValues& parameters) : spec_(spec) {
    for (const auto& [name, values] : parameters) {
      for (const float value : values) parameters_[name].push_back(tape_.constant(value));
    }
  }

  /// Sum of -log softmax(logits)[target] over the rows whose target counts.
  Number loss_sum(const ReferenceBatch& batch) {
    Number sum = tape_.constant(0);
    for (std::size_t row = 0; row < batch.tokens.size(); ++row) {
      const Rows logits_rows = logits(batch, row);
      for (std::size_t t = 0; t < logits_rows.size(); ++t) {
        const std::int32_t target = batch.targets[row][t];
        if (target < 0) continue;
        const Number picked = logits_rows[t][static_cast<std::size_t>(target)];
        sum = sum + log_sum_exp(logits_rows[t]) - picked;
      }
    }
    return sum;
  }

  /// Logits [T][V] of one row of the batch.
  Rows logits(const ReferenceBatch& batch, std::size_t row) {
    Rows x = embed(batch, row);
    for (std::int64_t block = 0; block < spec_.layers; ++block) {
      const std::string prefix = "h." + std::to_string(block) + ".";
      Rows branch = linear(attention(linear(norm(x, prefix + "ln_1"), prefix + "attn.c_attn")),
                           prefix + "attn.c_proj");
      x = sum(x, dropout(branch, batch, row, prefix + "attn.dropout"));
      branch = linear(gelu(linear(norm(x, prefix + "ln_2"), prefix + "mlp.c_fc")),
                      prefix + "mlp.c_proj");
      x = sum(x, dropout(branch, batch, row, prefix + "mlp.dropout"));
    }
    return product(norm(x, "ln_f"), spec_.tie_embeddings ? "wte.weight" : "lm_head.weight");
  }

  std::map<std::string, std::vector<double>> gradients(Number loss) {
    const std::vector<double> all = tape_.gradients(loss);
    std::map<std::string, std::vector<double>> named;
    for (const auto& [name, numbers] : parameters_) {
      for (const Number number : numbers) named[name].push_back(all[number.index]);
    }
    return named;
  }

 private:
  const Vector& parameter(const std::string& name) const { return parameters_.at(name); }
  Number parameter(const std::string& name, std::size_t row, std::size_t column) const {
    return parameter(name)[row * width() + column];
  }
  [[nodiscard]] std::size_t width() const { return static_cast<std::size_t>(spec_.hidden); }

  Rows embed(const ReferenceBatch& batch, std::size_t row) {
    Rows x;
    for (std::size_t t = 0; t < batch.tokens[row].size(); ++t) {
      const auto token = static_cast<std::size_t>(batch.tokens[row][t]);
      Vector out;
      for (std::size_t h = 0; h < width(); ++h) {
        out.push_back(parameter("wte.weight", token, h) + parameter("wpe.weight", t, h));
      }
      x.push_back(out);
    }
    return dropout(x, batch, row, "embedding.dropout");
  }

  /// Element h of position t of global sequence s is element (s*T + t)*H + h of the mask.
  Rows dropout(const Rows& x, const ReferenceBatch& batch, std::size_t row,
               const std::string& site) {
    if (!batch.training || spec_.dropout == 0) return x;
    const RandomStream stream(batch.seed, RandomPurpose::kDropout, stable_id(site),
                              static_cast<std::uint64_t>(batch.step));
    const auto probability = static_cast<float>(spec_.dropout);
    Rows y = x;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const auto position = static_cast<std::uint64_t>(batch.global_sequences[row]) *
                                static_cast<std::uint64_t>(batch.sequence) +
                            t;
      for (std::size_t h = 0; h < width(); ++h) {
        const bool kept = stream.uniform(position * width() + h) >= probability;
        y[t][h] = x[t][h] * (kept ? 1 / (1 - spec_.dropout) : 0.0);
      }
    }
    return y;
  }

  Rows norm(const Rows& x, const std::string& name) {
    Rows y;
    for (const Vector& row : x) {
      const double count = static_cast<double>(row.size());
      Number mean = tape_.constant(0);
      for (const Number value : row) mean = mean + value * (1 / count);
      Number variance = tape_.constant(0);
      for (const Number value : row) {
        variance = variance + (value - mean) * (value - mean) * (1 / count);
      }
      const Number deviation = sqrt(variance + spec_.norm_epsilon);
      Vector out;
      for (std::size_t h = 0; h < row.size(); ++h) {
        Number value = (row[h] - mean) / deviation * parameter(name + ".weight")[h];
        if (spec_.bias) value = value + parameter(name + ".bias")[h];
        out.push_back(value);
      }
      y.push_back(out);
    }
    return y;
  }

  /// x W^T for W [out, in].
  Rows product(const Rows& x, const std::string& weight) {
    const std::size_t in = x[0].size();
    const std::size_t out = parameter(weight).size() / in;
    Rows y;
    for (const Vector& row : x) {
      Vector result;
      for (std::size_t o = 0; o < out; ++o) {
        Number value = tape_.constant(0);
        for (std::size_t i = 0; i < in; ++i) {
          value = value + row[i] * parameter(weight)[o * in + i];
        }
        result.push_back(value);
      }
      y.push_back(result);
    }
    return y;
  }

  Rows linear(const Rows& x, const std::string& name) {
    Rows y = product(x, name + ".weight");
    if (!spec_.bias) return y;
    for (Vector& row : y) {
      for (std::size_t o = 0; o < row.size(); ++o) row[o] = row[o] + parameter(name + ".bias")[o];
    }
    return y;
  }

  /// qkv rows [3H]: queries, keys, values, heads within each.
  Rows attention(const Rows& qkv) {
    const auto depth = static_cast<std::size_t>(spec_.head_width());
    Rows out(qkv.size(), Vector(width(), tape_.constant(0)));
    for (std::size_t first = 0; first < width(); first += depth) {
      for (std::size_t t = 0; t < qkv.size(); ++t) {
        Vector scores;
        for (std::size_t s = 0; s <= t; ++s) {
          Number score = tape_.constant(0);
          for (std::size_t d = first; d < first + depth; ++d) {
            score = score + qkv[t][d] * qkv[s][width() + d];
          }
          scores.push_back(score * (1 / std::sqrt(static_cast<double>(depth))));
        }
        const Number total = log_sum_exp(scores);
        for (std::size_t s = 0; s <= t; ++s) {
          const Number weight = exp(scores[s] - total);
          for (std::size_t d = first; d < first + depth; ++d) {
            out[t][d] = out[t][d] + weight * qkv[s][2 * width() + d];
          }
        }
      }
    }
    return out;
  }

  static Rows gelu(const Rows& x) {
    Rows y = x;
    for (Vector& row : y) {
      for (Number& v : row) {
        const Number inner = (v + v * v * v * 0.044715) * std::sqrt(2 / std::numbers::pi);
        v = v * 0.5 * (tanh(inner) + 1.0);
      }
    }
    return y;
  }

  Number log_sum_exp(const Vector& values) {
    double most = values[0].value();
    for (const Number value : values) most = std::max(most, value.value());
    Number total = tape_.constant(0);
    for (const Number value : values) total = total + exp(value + -most);
    return log(total) + most;
  }

  static Rows sum(const Rows& a, const Rows& b) {
    Rows y = a;
    for (std::size_t t = 0; t < a.size(); ++t) {
      for (std::size_t h = 0; h < a[t].size(); ++h) y[t][h] = a[t][h] + b[t][h];
    }
    return y;
  }

  ModelSpec spec_;
  Tape tape_;
  std::map<std::string, Vector> parameters_;
};

}  // namespace quadrille::testing
