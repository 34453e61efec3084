// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/attention.h"

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace quadrille::test {
namespace {

using Attention = KernelTest;

Shape qkv_shape(const AttentionExtents& e) {
  return {e.batch, e.sequence, (e.heads + 2 * e.shared()) * e.width};
}
kernels::AttentionInput input_of(const TensorView& qkv, const AttentionExtents& e) {
  return kernels::packed_attention_input(qkv, e.heads, e.shared());
}
Shape out_shape(const AttentionExtents& e) { return {e.batch, e.sequence, e.heads * e.width}; }
Shape row_shape(const AttentionExtents& e) { return {e.batch, e.heads, e.sequence}; }

std::string text(const AttentionExtents& e) {
  return qkv_shape(e).to_text() + " heads " + std::to_string(e.heads) + " kv_heads " +
         std::to_string(e.shared());
}

// One query, primes, a tile exactly, one more, several tiles, a head wider than a tile; keys and
// values of each head's own, shared in pairs and threes, and one for all.
const std::vector<AttentionExtents> kExtents{{1, 1, 1, 1},       {2, 7, 3, 5},    {1, 64, 2, 16},
                                             {1, 65, 1, 32},     {2, 131, 1, 8},  {1, 200, 2, 40},
                                             {1, 129, 1, 80},    {3, 2, 2, 64},   {2, 67, 4, 6, 2},
                                             {1, 130, 6, 10, 2}, {2, 70, 3, 8, 1}};

TEST_F(Attention, MatchesFloat64AtOddShapes) {
  for (const AttentionExtents& e : kExtents) {
    SCOPED_TRACE(text(e));
    const auto qkv = random(qkv_shape(e));
    const AttentionResult expected = reference_attention(qkv->numbers(), e);
    for_each_instruction_set([&] {
      const auto out = empty(out_shape(e));
      const auto lse = empty(row_shape(e));
      kernels::attention_forward(*stream_,
                                 {.input = input_of(*qkv, e), .out = *out, .log_sum_exp = *lse});
      expect_close(out->numbers(), expected.out, 2e-6, "out");
      expect_close(lse->numbers(), expected.log_sum_exp, 2e-6, "log_sum_exp");
    });
  }
}

TEST_F(Attention, KeepsLargeScoresFinite) {
  const AttentionExtents e{1, 70, 1, 8};
  const auto qkv = random(qkv_shape(e), 12);  // scores of a few hundred
  const auto out = empty(out_shape(e));
  const auto lse = empty(row_shape(e));
  kernels::attention_forward(*stream_,
                             {.input = input_of(*qkv, e), .out = *out, .log_sum_exp = *lse});
  // A score's own rounding, 2^-24 of some 500, is the error of its exponential.
  expect_close(out->numbers(), reference_attention(qkv->numbers(), e).out, 2e-4, "out");
}

TEST_F(Attention, GradientMatchesFiniteDifferences) {
  for (const AttentionExtents& e :
       {AttentionExtents{1, 1, 1, 3}, AttentionExtents{2, 5, 3, 3}, AttentionExtents{1, 67, 1, 2},
        AttentionExtents{2, 4, 4, 3, 2}, AttentionExtents{1, 66, 2, 1, 1}}) {
    SCOPED_TRACE(text(e));
    const auto qkv = random(qkv_shape(e));
    const auto dout = random(out_shape(e));
    const Numbers expected =
        finite_difference(qkv->numbers(), dout->numbers(),
                          [&](const Numbers& x) { return reference_attention(x, e).out; });
    for_each_instruction_set([&] {
      const auto out = empty(out_shape(e));
      const auto lse = empty(row_shape(e));
      const auto delta = empty(row_shape(e));
      const auto dqkv = random(qkv_shape(e));  // must be overwritten
      kernels::attention_forward(*stream_,
                                 {.input = input_of(*qkv, e), .out = *out, .log_sum_exp = *lse});
      kernels::attention_backward(*stream_, {.input = input_of(*qkv, e),
                                             .out = *out,
                                             .log_sum_exp = *lse,
                                             .dout = *dout,
                                             .delta = *delta,
                                             .gradient = input_of(*dqkv, e)});
      expect_close(dqkv->numbers(), expected, 1e-5, "dqkv");
    });
  }
}

/// The gradient of every element in float64 costs T^2 forwards of T^2; a formula is checked against
/// differences above, so that here a direction suffices: d/dh sum(w f(x + h v)) = <dx, v>.
TEST_F(Attention, GradientPointsAsTheDirectionalDerivativeAcrossTiles) {
  for (const AttentionExtents& e : {AttentionExtents{1, 200, 2, 40}, AttentionExtents{2, 128, 2, 8},
                                    AttentionExtents{1, 140, 4, 8, 2}}) {
    SCOPED_TRACE(text(e));
    const auto qkv = random(qkv_shape(e));
    const auto dout = random(out_shape(e));
    const auto out = empty(out_shape(e));
    const auto lse = empty(row_shape(e));
    const auto delta = empty(row_shape(e));
    const auto dqkv = empty(qkv_shape(e));
    kernels::attention_forward(*stream_,
                               {.input = input_of(*qkv, e), .out = *out, .log_sum_exp = *lse});
    kernels::attention_backward(*stream_, {.input = input_of(*qkv, e),
                                           .out = *out,
                                           .log_sum_exp = *lse,
                                           .dout = *dout,
                                           .delta = *delta,
                                           .gradient = input_of(*dqkv, e)});
    const Numbers gradient = dqkv->numbers();
    const Numbers weights = dout->numbers();
    // Along the gradient itself the derivative is its squared length: nothing cancels.
    const auto value_at = [&](double step) {
      Numbers moved = qkv->numbers();
      for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += step * gradient[i];
      const Numbers y = reference_attention(moved, e).out;
      double sum = 0;
      for (std::size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
      return sum;
    };
    double squared_length = 0;
    for (const double g : gradient) squared_length += g * g;
    const double derivative = (value_at(1e-5) - value_at(-1e-5)) / 2e-5;
    EXPECT_NEAR(derivative / squared_length, 1, 1e-5);
  }
}

TEST_F(Attention, GivesTheSameBitsWithOneThreadAndTwo) {
  const AttentionExtents e{3, 100, 4, 24, 2};
  const auto qkv = random(qkv_shape(e));
  const auto dout = random(out_shape(e));
  const auto [one, two] = with_one_and_two_threads([&] {
    const auto out = empty(out_shape(e));
    const auto lse = empty(row_shape(e));
    const auto delta = empty(row_shape(e));
    const auto dqkv = empty(qkv_shape(e));
    kernels::attention_forward(*stream_,
                               {.input = input_of(*qkv, e), .out = *out, .log_sum_exp = *lse});
    kernels::attention_backward(*stream_, {.input = input_of(*qkv, e),
                                           .out = *out,
                                           .log_sum_exp = *lse,
                                           .dout = *dout,
                                           .delta = *delta,
                                           .gradient = input_of(*dqkv, e)});
    auto bits = out->get<float>();
    const auto gradient = dqkv->get<float>();
    bits.insert(bits.end(), gradient.begin(), gradient.end());
    return bits;
  });
  EXPECT_TRUE(same_bits(one, two));
}

TEST_F(Attention, PassesNanOnToTheRowsThatSeeIt) {
  const AttentionExtents e{1, 80, 1, 8};
  const auto qkv = random(qkv_shape(e));
  for_each_instruction_set([&] {
    for (const int part : {0, 1, 2}) {
      auto values = qkv->get<float>();
      constexpr std::size_t kToken = 70;
      values[kToken * 24 + static_cast<std::size_t>(part) * 8 + 3] = std::nanf("");
      const auto poisoned = empty(qkv_shape(e));
      poisoned->set(values);
      const auto out = empty(out_shape(e));
      const auto lse = empty(row_shape(e));
      kernels::attention_forward(
          *stream_, {.input = input_of(*poisoned, e), .out = *out, .log_sum_exp = *lse});
      const auto result = out->get<float>();
      EXPECT_TRUE(std::isnan(result[kToken * 8 + 3])) << "part " << part;
      EXPECT_TRUE(std::isfinite(result[0])) << "part " << part;
    }
  });
}

/// Copies columns [first, first + count) of every row into a tensor of their own.
std::vector<float> columns_of(const std::vector<float>& rows, std::int64_t columns,
                              std::int64_t first, std::int64_t count) {
  std::vector<float> part;
  for (auto row = rows.begin(); row != rows.end(); row += columns) {
    part.insert(part.end(), row + first, row + first + count);
  }
  return part;
}

TEST_F(Attention, DoesNotCareWhetherQueriesKeysAndValuesShareATensor) {
  const AttentionExtents e{2, 70, 4, 6, 2};
  const std::int64_t columns = qkv_shape(e)[2];
  const auto qkv = random(qkv_shape(e));
  const auto dqkv = random(qkv_shape(e));
  const auto dout = random(out_shape(e));
  const auto separate = [&](std::int64_t first, std::int64_t heads) {
    auto part = empty({e.batch, e.sequence, heads * e.width});
    part->set(columns_of(qkv->get<float>(), columns, first * e.width, heads * e.width));
    return part;
  };
  const auto q = separate(0, 4), k = separate(4, 2), v = separate(6, 2);
  const auto dq = separate(0, 4), dk = separate(4, 2), dv = separate(6, 2);
  const auto run = [&](const kernels::AttentionInput& input,
                       const kernels::AttentionInput& gradient) {
    const auto out = empty(out_shape(e));
    const auto lse = empty(row_shape(e));
    const auto delta = empty(row_shape(e));
    kernels::attention_forward(*stream_, {.input = input, .out = *out, .log_sum_exp = *lse});
    kernels::attention_backward(*stream_, {.input = input,
                                           .out = *out,
                                           .log_sum_exp = *lse,
                                           .dout = *dout,
                                           .delta = *delta,
                                           .gradient = gradient});
    return out->get<float>();
  };
  const auto together = run(input_of(*qkv, e), input_of(*dqkv, e));
  const auto apart = run({4, 2, {*q}, {*k}, {*v}}, {4, 2, {*dq}, {*dk}, {*dv}});
  EXPECT_TRUE(same_bits(together, apart));
  const auto gradient = dqkv->get<float>();
  const std::int64_t d = e.width;
  EXPECT_TRUE(same_bits(dq->get<float>(), columns_of(gradient, columns, 0, 4 * d)));
  EXPECT_TRUE(same_bits(dk->get<float>(), columns_of(gradient, columns, 4 * d, 2 * d)));
  EXPECT_TRUE(same_bits(dv->get<float>(), columns_of(gradient, columns, 6 * d, 2 * d)));
}

/// Each row continues the slot of its number.
std::vector<kernels::CachedSequence> continued(std::int64_t batch, std::int64_t past) {
  std::vector<kernels::CachedSequence> sequences;
  for (std::int64_t b = 0; b < batch; ++b) sequences.push_back({b, past});
  return sequences;
}

/// Feeding a sequence in pieces through the cache gives what one pass over the whole gives.
TEST_F(Attention, CachedPiecesEqualTheWholeSequence) {
  for (const AttentionExtents& e : {AttentionExtents{2, 90, 3, 20}, AttentionExtents{1, 5, 1, 1},
                                    AttentionExtents{2, 41, 4, 12, 2}}) {
    SCOPED_TRACE(text(e));
    const auto qkv = random(qkv_shape(e));
    const Numbers expected = reference_attention(qkv->numbers(), e).out;
    const std::int64_t model = e.heads * e.width;
    const std::int64_t cached = e.shared() * e.width;
    const std::int64_t columns = model + 2 * cached;
    const auto all = qkv->get<float>();
    for_each_instruction_set([&] {
      const Shape cache{e.batch, e.shared(), e.sequence + 3, e.width};
      const auto keys = empty(cache);
      const auto values = empty(cache);
      Numbers whole(expected.size());
      std::int64_t past = 0;
      for (std::int64_t piece = 1; past < e.sequence; piece = piece * 3 + 1) {
        const std::int64_t count = std::min(piece, e.sequence - past);
        const auto part = empty({e.batch, count, columns});
        std::vector<float> rows;
        for (std::int64_t b = 0; b < e.batch; ++b) {
          const auto first = all.begin() + (b * e.sequence + past) * columns;
          rows.insert(rows.end(), first, first + count * columns);
        }
        part->set(rows);
        const auto out = empty({e.batch, count, model});
        kernels::attention_cached(*stream_, {.input = input_of(*part, e),
                                             .sequences = continued(e.batch, past),
                                             .key_cache = *keys,
                                             .value_cache = *values,
                                             .out = *out});
        const Numbers numbers = out->numbers();
        for (std::int64_t b = 0; b < e.batch; ++b) {
          std::copy_n(numbers.begin() + b * count * model, count * model,
                      whole.begin() + (b * e.sequence + past) * model);
        }
        past += count;
      }
      expect_close(whole, expected, 2e-6, "out");
    });
  }
}

/// Sequences of different lengths in any slots give, together, the bits that each gives alone.
TEST_F(Attention, ACachedSequenceDoesNotDependOnThoseBesideIt) {
  const std::int64_t heads = 4, shared = 2, width = 6, capacity = 9;
  const Shape cache{3, shared, capacity, width};
  const AttentionExtents one{1, 1, heads, width, shared};
  for_each_instruction_set([&] {
    const auto keys = random(cache), values = random(cache);
    const auto input = random(qkv_shape({2, 1, heads, width, shared}));
    const auto fresh_keys = empty(cache), fresh_values = empty(cache);
    fresh_keys->set(keys->get<float>());
    fresh_values->set(values->get<float>());
    const std::vector<kernels::CachedSequence> sequences{{2, 8}, {0, 3}};
    const auto together = empty({2, 1, heads * width});
    kernels::attention_cached(*stream_,
                              {.input = kernels::packed_attention_input(*input, heads, shared),
                               .sequences = sequences,
                               .key_cache = *keys,
                               .value_cache = *values,
                               .out = *together});
    for (std::int64_t row = 0; row < 2; ++row) {
      const auto alone = empty({1, 1, heads * width});
      kernels::attention_cached(*stream_, {.input = input_of(input->view().rows(row, 1), one),
                                           .sequences = {sequences[static_cast<std::size_t>(row)]},
                                           .key_cache = *fresh_keys,
                                           .value_cache = *fresh_values,
                                           .out = *alone});
      const auto both = together->get<float>();
      const auto first = both.begin() + row * heads * width;
      EXPECT_TRUE(same_bits(alone->get<float>(), {first, first + heads * width})) << row;
    }
    EXPECT_TRUE(same_bits(keys->get<float>(), fresh_keys->get<float>()));
    EXPECT_TRUE(same_bits(values->get<float>(), fresh_values->get<float>()));
  });
}

}  // namespace
}  // namespace quadrille::test
