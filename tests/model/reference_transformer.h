// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// GPT-2 and Llama written plainly in float64: one sequence at a time, loops over positions, whole
// score rows. Only the forward pass is written; gradients come from the tape.

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
      const std::string site = "h." + std::to_string(block) + ".";
      const std::string prefix = llama() ? "model.layers." + std::to_string(block) + "." : site;
      x = sum(x, dropout(attention_branch(x, prefix), batch, row, site + "attn.dropout"));
      x = sum(x, dropout(mlp_branch(x, prefix), batch, row, site + "mlp.dropout"));
    }
    return product(norm(x, llama() ? "model.norm" : "ln_f"),
                   spec_.tie_embeddings ? embedding() : "lm_head.weight");
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
  [[nodiscard]] bool llama() const { return spec_.family == ModelFamily::kLlama; }
  [[nodiscard]] std::string embedding() const {
    return llama() ? "model.embed_tokens.weight" : "wte.weight";
  }

  Rows attention_branch(const Rows& x, const std::string& prefix) {
    if (llama()) {
      const Rows normed = norm(x, prefix + "input_layernorm");
      const Rows queries = turned(linear(normed, prefix + "self_attn.q_proj"));
      const Rows keys = turned(linear(normed, prefix + "self_attn.k_proj"));
      const Rows values = linear(normed, prefix + "self_attn.v_proj");
      return linear(attention(queries, keys, values), prefix + "self_attn.o_proj");
    }
    const Rows qkv = linear(norm(x, prefix + "ln_1"), prefix + "attn.c_attn");
    return linear(attention(columns(qkv, 0), columns(qkv, width()), columns(qkv, 2 * width())),
                  prefix + "attn.c_proj");
  }

  Rows mlp_branch(const Rows& x, const std::string& prefix) {
    if (llama()) {
      const Rows normed = norm(x, prefix + "post_attention_layernorm");
      Rows inner = linear(normed, prefix + "mlp.gate_proj");
      const Rows up = linear(normed, prefix + "mlp.up_proj");
      for (std::size_t t = 0; t < inner.size(); ++t) {
        for (std::size_t f = 0; f < inner[t].size(); ++f) {
          const Number gate = inner[t][f];
          inner[t][f] = gate / (exp(gate * -1.0) + 1.0) * up[t][f];
        }
      }
      return linear(inner, prefix + "mlp.down_proj");
    }
    return linear(gelu(linear(norm(x, prefix + "ln_2"), prefix + "mlp.c_fc")),
                  prefix + "mlp.c_proj");
  }

  /// Columns [first, first + H).
  [[nodiscard]] Rows columns(const Rows& x, std::size_t first) const {
    Rows part;
    for (const Vector& row : x) {
      const auto start = row.begin() + static_cast<std::ptrdiff_t>(first);
      part.emplace_back(start, start + static_cast<std::ptrdiff_t>(width()));
    }
    return part;
  }

  /// The frequency of pair i as Hugging Face's transformers computes it, by wavelengths.
  [[nodiscard]] double frequency(std::size_t i) const {
    const RopeScaling& scaling = spec_.rope_scaling;
    const double plain = 1 / std::pow(spec_.rope_base, 2 * static_cast<double>(i) /
                                                           static_cast<double>(spec_.head_width()));
    if (scaling.type == RopeScalingType::kNone) return plain;
    if (scaling.type == RopeScalingType::kLinear) return plain / scaling.factor;
    const double wavelength = 2 * std::numbers::pi / plain;
    const auto original = static_cast<double>(scaling.original_context);
    if (wavelength < original / scaling.high_freq_factor) return plain;
    if (wavelength > original / scaling.low_freq_factor) return plain / scaling.factor;
    const double smooth = (original / wavelength - scaling.low_freq_factor) /
                          (scaling.high_freq_factor - scaling.low_freq_factor);
    return (1 - smooth) * plain / scaling.factor + smooth * plain;
  }

  /// Turns the pairs (i, i + D/2) of every head of row t by t times their frequency.
  [[nodiscard]] Rows turned(const Rows& x) const {
    const auto depth = static_cast<std::size_t>(spec_.head_width());
    Rows y = x;
    for (std::size_t t = 0; t < x.size(); ++t) {
      for (std::size_t head = 0; head < x[t].size(); head += depth) {
        for (std::size_t i = 0; i < depth / 2; ++i) {
          const double angle = static_cast<double>(t) * frequency(i);
          const Number a = x[t][head + i];
          const Number b = x[t][head + depth / 2 + i];
          y[t][head + i] = a * std::cos(angle) - b * std::sin(angle);
          y[t][head + depth / 2 + i] = b * std::cos(angle) + a * std::sin(angle);
        }
      }
    }
    return y;
  }

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
        const Number word = parameter(embedding(), token, h);
        out.push_back(llama() ? word : word + parameter("wpe.weight", t, h));
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
      // An RMS norm is a layer norm that takes the mean for 0.
      for (const Number value : row) mean = mean + value * (llama() ? 0 : 1 / count);
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

  /// Rows of heads side by side; heads of queries share those of keys and values in equal groups.
  Rows attention(const Rows& queries, const Rows& keys, const Rows& values) {
    const auto depth = static_cast<std::size_t>(spec_.head_width());
    const auto group = static_cast<std::size_t>(spec_.heads / spec_.key_value_heads());
    Rows out(queries.size(), Vector(queries[0].size(), tape_.constant(0)));
    for (std::size_t first = 0; first < queries[0].size(); first += depth) {
      const std::size_t shared = first / depth / group * depth;
      for (std::size_t t = 0; t < queries.size(); ++t) {
        Vector scores;
        for (std::size_t s = 0; s <= t; ++s) {
          Number score = tape_.constant(0);
          for (std::size_t d = 0; d < depth; ++d) {
            score = score + queries[t][first + d] * keys[s][shared + d];
          }
          scores.push_back(score * (1 / std::sqrt(static_cast<double>(depth))));
        }
        const Number total = log_sum_exp(scores);
        for (std::size_t s = 0; s <= t; ++s) {
          const Number weight = exp(scores[s] - total);
          for (std::size_t d = 0; d < depth; ++d) {
            out[t][first + d] = out[t][first + d] + weight * values[s][shared + d];
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
