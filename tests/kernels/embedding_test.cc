// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/embedding.h"

#include "kernels/fixture.h"

namespace quadrille::test {
namespace {

using Embedding = KernelTest;

struct Extents {
  std::int64_t batch;
  std::int64_t sequence;
  std::int64_t width;
};
constexpr std::int32_t kVocab = 11;
constexpr std::int64_t kContext = 40;

const std::vector<Extents> kExtents{{1, 1, 1}, {3, 7, 5}, {2, 37, 64}, {1, 29, 193}};

TEST_F(Embedding, IsTheSumOfTheTokensRowAndThePositionsRow) {
  for (const Extents& e : kExtents) {
    const auto tokens = random_ids({e.batch, e.sequence}, 0, kVocab - 1);
    const auto table = random({kVocab, e.width});
    const auto positions = random({kContext, e.width});
    const auto out = empty({e.batch, e.sequence, e.width});
    for (const std::int64_t first : {std::int64_t{0}, kContext - e.sequence}) {
      kernels::embedding_forward(*stream_, {.tokens = *tokens,
                                            .token_table = *table,
                                            .position_table = *positions,
                                            .first_position = first,
                                            .out = *out});
      const auto ids = tokens->get<std::int32_t>();
      const auto rows = table->get<float>();
      const auto places = positions->get<float>();
      const auto result = out->get<float>();
      for (std::size_t i = 0; i < result.size(); ++i) {
        const auto width = static_cast<std::size_t>(e.width);
        const std::size_t token = i / width;
        const auto place =
            token % static_cast<std::size_t>(e.sequence) + static_cast<std::size_t>(first);
        const auto id = static_cast<std::size_t>(ids[token]);
        EXPECT_EQ(result[i], rows[id * width + i % width] + places[place * width + i % width]);
      }
    }
  }
}

TEST_F(Embedding, PartsOfTheVocabularyAddUpToTheWhole) {
  const auto tokens = random_ids({3, 7}, 0, kVocab - 1);
  const auto table = random({kVocab, 5});
  const auto dout = random({3, 7, 5});
  const auto whole = empty({3, 7, 5});
  const auto gradient = empty({kVocab, 5});
  kernels::embedding_forward(*stream_, {.tokens = *tokens, .token_table = *table, .out = *whole});
  kernels::embedding_backward(*stream_,
                              {.tokens = *tokens, .dout = *dout, .token_gradient = *gradient});
  Numbers sum(whole->numbers().size());
  for (const auto& [first, count] : {std::pair(0, 4), {4, 1}, {5, 6}}) {
    const auto out = empty({3, 7, 5});
    kernels::embedding_forward(*stream_, {.tokens = *tokens,
                                          .token_table = table->view().rows(first, count),
                                          .out = *out,
                                          .first_id = first,
                                          .vocab = kVocab});
    const Numbers part = out->numbers();
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
    const auto rows = empty({count, 5});
    kernels::embedding_backward(*stream_, {.tokens = *tokens,
                                           .dout = *dout,
                                           .token_gradient = *rows,
                                           .first_id = first,
                                           .vocab = kVocab});
    const Numbers all = gradient->numbers();
    EXPECT_EQ(rows->numbers(), Numbers(all.begin() + first * 5, all.begin() + (first + count) * 5));
  }
  EXPECT_EQ(sum, whole->numbers());
}

TEST_F(Embedding, GradientAddsEveryTokenInOrderWhateverTheThreads) {
  for (const Extents& e : kExtents) {
    const auto tokens = random_ids({e.batch, e.sequence}, 0, kVocab - 1);
    const auto dout = random({e.batch, e.sequence, e.width});
    const auto before = random({kVocab, e.width});
    const auto ids = tokens->get<std::int32_t>();
    const auto terms = dout->get<float>();
    auto table = before->get<float>();
    std::vector<float> places(static_cast<std::size_t>(kContext * e.width));
    const auto width = static_cast<std::size_t>(e.width);
    for (std::size_t i = 0; i < terms.size(); ++i) {
      const std::size_t token = i / width;
      table[static_cast<std::size_t>(ids[token]) * width + i % width] += terms[i];
      places[token % static_cast<std::size_t>(e.sequence) * width + i % width] += terms[i];
    }
    const auto [one, two] = with_one_and_two_threads([&] {
      const auto token_gradient = empty({kVocab, e.width});
      const auto position_gradient = empty({kContext, e.width});
      token_gradient->set(before->get<float>());
      kernels::embedding_backward(*stream_, {.tokens = *tokens,
                                             .dout = *dout,
                                             .token_gradient = *token_gradient,
                                             .position_gradient = *position_gradient});
      return std::pair(token_gradient->get<float>(), position_gradient->get<float>());
    });
    EXPECT_EQ(one.first, table);
    EXPECT_EQ(one.second, places);
    EXPECT_EQ(two, one);
  }
}

TEST_F(Embedding, RefusesAnIdOutsideTheVocabulary) {
  const auto tokens = random_ids({1, 1}, kVocab, kVocab);
  const auto table = random({kVocab, 2});
  const auto positions = random({kContext, 2});
  const auto out = empty({1, 1, 2});
  EXPECT_DEATH(
      kernels::embedding_forward(
          *stream_,
          {.tokens = *tokens, .token_table = *table, .position_table = *positions, .out = *out}),
      "token id 11 of a vocabulary of 11");
}

}  // namespace
}  // namespace quadrille::test
