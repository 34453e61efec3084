// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/rotary.h"

#include "kernels/fixture.h"
#include "kernels/reference.h"

namespace quadrille::test {
namespace {

using RotaryPositions = KernelTest;

struct Case {
  std::int64_t batch;
  std::int64_t sequence;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t half;  // D / 2
};
// One pair, odd halves, whole vectors, several blocks of positions.
const std::vector<Case> kCases{
    {1, 1, 1, 1, 1}, {2, 7, 3, 1, 5}, {1, 40, 4, 2, 16}, {3, 9, 2, 2, 33}};

Numbers frequencies_of(std::int64_t half) {
  Numbers frequencies;
  for (std::int64_t i = 0; i < half; ++i) {
    frequencies.push_back(std::pow(10'000.0, -static_cast<double>(i) / static_cast<double>(half)));
  }
  return frequencies;
}

TEST_F(RotaryPositions, MatchesFloat64AlsoAtFarPositions) {
  for (const Case& c : kCases) {
    const auto queries = random({c.batch, c.sequence, c.heads * 2 * c.half});
    const auto keys = random({c.batch, c.sequence, c.kv_heads * 2 * c.half});
    const Numbers frequencies = frequencies_of(c.half);
    for (const std::int64_t first : {0, 5, 100'000}) {
      const auto expected = [&](const Tensor& x, std::int64_t heads) {
        return reference_rotary(x.numbers(), frequencies, first, {c.sequence, heads * 2 * c.half});
      };
      for_each_instruction_set([&] {
        const auto q = empty(queries->view().shape());
        const auto k = empty(keys->view().shape());
        q->set(queries->get<float>());
        k->set(keys->get<float>());
        kernels::rotary(
            *stream_,
            {.queries = *q, .keys = *k, .frequencies = frequencies, .first_position = first});
        expect_close(q->numbers(), expected(*queries, c.heads), 3e-7, "queries");
        expect_close(k->numbers(), expected(*keys, c.kv_heads), 3e-7, "keys");
      });
    }
  }
}

/// A turn is linear and keeps lengths, so its gradient is the turn back: <turn(x), y> = <x,
/// back(y)> for all x and y, which finite differences of the reference confirm.
TEST_F(RotaryPositions, TurningBackIsTheGradient) {
  const Case c{2, 3, 2, 1, 3};
  const Shape shape{c.batch, c.sequence, c.heads * 2 * c.half};
  const auto x = random(shape);
  const auto dy = random(shape);
  const auto keys = random({c.batch, c.sequence, c.kv_heads * 2 * c.half});
  const Numbers frequencies = frequencies_of(c.half);
  const Numbers expected =
      finite_difference(x->numbers(), dy->numbers(), [&](const Numbers& value) {
        return reference_rotary(value, frequencies, 4, {c.sequence, shape[2]});
      });
  kernels::rotary(*stream_, {.queries = *dy,
                             .keys = *keys,
                             .frequencies = frequencies,
                             .first_position = 4,
                             .inverse = true});
  expect_close(dy->numbers(), expected, 1e-6, "gradient");
}

TEST_F(RotaryPositions, GivesTheSameBitsWithOneThreadAndTwo) {
  const Shape shape{2, 50, 24};
  const auto x = random(shape);
  const auto [one, two] = with_one_and_two_threads([&] {
    const auto q = empty(shape);
    const auto k = empty(shape);
    q->set(x->get<float>());
    k->set(x->get<float>());
    kernels::rotary(*stream_, {.queries = *q, .keys = *k, .frequencies = frequencies_of(6)});
    EXPECT_TRUE(same_bits(q->get<float>(), k->get<float>()));
    return q->get<float>();
  });
  EXPECT_TRUE(same_bits(one, two));
}

}  // namespace
}  // namespace quadrille::test
