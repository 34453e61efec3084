// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Parts of a vocabulary against the whole of it in float64: the loss that every part finds, and the
// gradients of all parts side by side.

#include "quadrille/kernels/vocab_cross_entropy.h"

#include "kernels/fixture.h"
#include "quadrille/mesh/placement.h"

namespace quadrille::test {
namespace {

struct Expected {
  double loss = 0;
  Numbers gradient;  // [N, V]
};

Expected reference(const Numbers& logits, const std::vector<std::int32_t>& targets,
                   std::size_t vocab) {
  Expected expected;
  expected.gradient.resize(logits.size());
  for (std::size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] < 0) continue;
    double sum = 0;
    for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(logits[r * vocab + v]);
    const std::size_t target = r * vocab + static_cast<std::size_t>(targets[r]);
    expected.loss += std::log(sum) - logits[target];
    for (std::size_t v = 0; v < vocab; ++v) {
      expected.gradient[r * vocab + v] = std::exp(logits[r * vocab + v]) / sum;
    }
    expected.gradient[target] -= 1;
  }
  return expected;
}

struct Case {
  std::int64_t rows;
  std::int64_t vocab;
  int parts;
};

class VocabParts : public KernelTest {
 protected:
  void check(const Case& c) {
    const auto logits = random({c.rows, c.vocab}, 4);
    const auto targets = random_ids({c.rows}, -1, static_cast<std::int32_t>(c.vocab) - 1);
    const auto statistics = empty({c.parts, c.rows, kernels::kRowStatistics});
    const Expected expected = reference(logits->numbers(), targets->get<std::int32_t>(),
                                        static_cast<std::size_t>(c.vocab));
    std::vector<std::unique_ptr<Tensor>> parts;
    for (int p = 0; p < c.parts; ++p) {
      const Extent ids = shard_extent(c.vocab, p, c.parts);
      parts.push_back(empty({c.rows, ids.length}));
      parts.back()->set(columns(logits->get<float>(), c, ids));
      const TensorView own = statistics->view().rows(p, 1).reshape({c.rows, 3});
      kernels::vocab_statistics(*stream_, {*parts.back(), *targets, ids.first, own});
    }
    std::vector<double> losses;
    Numbers gradient(expected.gradient.size());
    for (int p = 0; p < c.parts; ++p) {
      const Extent ids = shard_extent(c.vocab, p, c.parts);
      const auto loss = empty({1}, DType::kF64);
      loss->set<double>({0.5});
      kernels::vocab_cross_entropy(*stream_, {.logits = *parts[std::size_t(p)],
                                              .targets = *targets,
                                              .first_id = ids.first,
                                              .statistics = *statistics,
                                              .part = p,
                                              .loss_sum = *loss,
                                              .gradient = true});
      losses.push_back(loss->get<double>()[0] - 0.5);
      const Numbers own = parts[std::size_t(p)]->numbers();
      for (std::int64_t r = 0; r < c.rows; ++r) {
        for (std::int64_t v = 0; v < ids.length; ++v) {
          gradient[std::size_t(r * c.vocab + ids.first + v)] = own[std::size_t(r * ids.length + v)];
        }
      }
    }
    for (const double loss : losses) EXPECT_EQ(loss, losses[0]) << "every part finds the same bits";
    EXPECT_NEAR(losses[0], expected.loss, 1e-5 * (1 + expected.loss));
    expect_close(gradient, expected.gradient, 1e-5, "gradient");
  }

  static std::vector<float> columns(const std::vector<float>& whole, const Case& c, Extent ids) {
    std::vector<float> part;
    for (std::int64_t r = 0; r < c.rows; ++r) {
      for (std::int64_t v = 0; v < ids.length; ++v) {
        part.push_back(whole[std::size_t(r * c.vocab + ids.first + v)]);
      }
    }
    return part;
  }
};

TEST_F(VocabParts, TogetherAreTheWholeOnEveryInstructionSet) {
  for_each_instruction_set([this] {
    for (const Case& c : {Case{1, 5, 1}, {3, 7, 3}, {9, 101, 2}, {5, 29, 6}, {6, 300, 4}}) check(c);
  });
}

TEST_F(VocabParts, FarApartMaximaDoNotOverflow) {
  const auto logits = empty({1, 2});
  logits->set<float>({90, 0});
  const auto far = empty({1, 2});
  far->set<float>({-200, -300});
  const auto targets = empty({1}, DType::kI32);
  targets->set<std::int32_t>({3});
  const auto statistics = empty({2, 1, 3});
  kernels::vocab_statistics(*stream_,
                            {*logits, *targets, 0, statistics->view().rows(0, 1).reshape({1, 3})});
  kernels::vocab_statistics(*stream_,
                            {*far, *targets, 2, statistics->view().rows(1, 1).reshape({1, 3})});
  const auto loss = empty({1}, DType::kF64);
  loss->set<double>({0});
  kernels::vocab_cross_entropy(*stream_, {.logits = *far,
                                          .targets = *targets,
                                          .first_id = 2,
                                          .statistics = *statistics,
                                          .part = 1,
                                          .loss_sum = *loss,
                                          .gradient = true});
  EXPECT_NEAR(loss->get<double>()[0], 390, 1e-3);
  EXPECT_EQ(far->get<float>(), (std::vector<float>{0, -1}));
}

}  // namespace
}  // namespace quadrille::test
