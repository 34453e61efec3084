// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Single-stage programs and the verifier: what the builder makes is legal, and every way of
// breaking it that the rules name is found.

#include "quadrille/schedule/program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "quadrille/schedule/builders.h"
#include "quadrille/schedule/verify.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;

TEST(Program, SaysItsInstructions) {
  EXPECT_EQ(to_text(Instruction{InstructionKind::kForward, 0, 3}), "forward layer 3 micro-batch 0");
  EXPECT_EQ(to_text(Instruction{InstructionKind::kLoadBatch, 2, -1}), "load_batch micro-batch 2");
  EXPECT_EQ(to_text(Instruction{InstructionKind::kOptimizerStep, -1, -1}), "optimizer_step");
}

TEST(SingleStage, RunsForwardAllLayersThenBackwardThenReducesAndSteps) {
  const Program program = build_single_stage({.ranks = 2, .layers = 2, .micro_batches = 2}).value();
  std::vector<std::string> texts;
  for (const Instruction& instruction : program.ranks.at(1)) texts.push_back(to_text(instruction));
  EXPECT_THAT(texts, ::testing::ElementsAre(
                         "load_batch micro-batch 0", "forward layer 0 micro-batch 0",
                         "forward layer 1 micro-batch 0", "backward layer 1 micro-batch 0",
                         "backward layer 0 micro-batch 0", "load_batch micro-batch 1",
                         "forward layer 0 micro-batch 1", "forward layer 1 micro-batch 1",
                         "backward layer 1 micro-batch 1", "backward layer 0 micro-batch 1",
                         "reduce_gradients", "optimizer_step"));
  EXPECT_EQ(program.ranks[0], program.ranks[1]);
}

TEST(SingleStage, IsLegalForEveryShape) {
  for (int ranks = 1; ranks <= 3; ++ranks) {
    for (std::int64_t layers = 1; layers <= 7; layers += 2) {
      for (std::int64_t batches = 1; batches <= 5; ++batches) {
        const auto program = build_single_stage({ranks, layers, batches});
        ASSERT_TRUE(program.has_value());
        const auto legal = verify(*program);
        EXPECT_TRUE(legal.has_value()) << legal.error().message;
      }
    }
  }
}

TEST(SingleStage, RefusesShapesThatAreNone) {
  EXPECT_THAT(build_single_stage({.ranks = 0}).error().message, HasSubstr("0 ranks"));
  EXPECT_THAT(build_single_stage({.layers = 0}).error().message, HasSubstr("0 layers"));
  EXPECT_THAT(build_single_stage({.micro_batches = -1}).error().message,
              HasSubstr("-1 micro-batches"));
  EXPECT_EQ(build_single_stage({1, INT64_MAX, 1}).error().code, Code::kInvalid);
  EXPECT_EQ(build_single_stage({1000, 100, INT64_MAX / 100}).error().code, Code::kInvalid);
}

TEST(Verify, RefusesProgramsOfNothing) {
  EXPECT_FALSE(verify(Program{}).has_value());
  EXPECT_FALSE(verify(Program{1, 1, {}}).has_value());
  EXPECT_FALSE(verify(Program{1, 1, {{}}}).has_value());
  EXPECT_FALSE(verify(Program{INT64_MAX, INT64_MAX, {{}}}).has_value());
}

TEST(Verify, NamesRankInstructionAndRule) {
  Program program = build_single_stage({.ranks = 3, .layers = 2, .micro_batches = 1}).value();
  program.ranks[2].erase(program.ranks[2].begin() + 3);  // backward of the last layer
  const auto verdict = verify(program);
  ASSERT_FALSE(verdict.has_value());
  EXPECT_EQ(verdict.error().code, Code::kInvalid);
  EXPECT_EQ(
      verdict.error().message,
      "rank 2, instruction 3 (backward layer 0 micro-batch 0): backward layer 1 must come first");
}

/// The program's ranks[rank] after one random fault that breaks a rule for sure.
class Saboteur {
 public:
  explicit Saboteur(Program program) : program_(std::move(program)) {}

  std::string sabotage(std::mt19937& random) {
    auto& list = program_.ranks[random() % program_.ranks.size()];
    const std::size_t at = random() % list.size();
    const auto offset = static_cast<std::ptrdiff_t>(at);
    const std::string what = to_text(list[at]);
    switch (random() % 4) {
      case 0:
        list.erase(list.begin() + offset);
        return "drop " + what;
      case 1: {
        const auto where = static_cast<std::ptrdiff_t>(random() % (list.size() + 1));
        list.insert(list.begin() + where, Instruction(list[at]));
        return "duplicate " + what;
      }
      case 2:
        return "relabel " + what + " as " + relabel(list[at], random);
      default:
        return "swap " + what + " with " + swap(list, at, random);
    }
  }
  [[nodiscard]] const Program& program() const { return program_; }

 private:
  /// Any other instruction: then this one is missing, whatever the new one is.
  static std::string relabel(Instruction& instruction, std::mt19937& random) {
    const Instruction before = instruction;
    while (instruction == before) {
      switch (random() % 3) {
        case 0:
          instruction.kind = static_cast<InstructionKind>(random() % 5);
          break;
        case 1:
          instruction.micro_batch = static_cast<std::int64_t>(random() % 6) - 2;
          break;
        default:
          instruction.layer = static_cast<std::int64_t>(random() % 7) - 2;
      }
    }
    return to_text(instruction);
  }
  /// Two that are ordered: of the same micro-batch, or one of them a collective.
  static std::string swap(std::vector<Instruction>& list, std::size_t at, std::mt19937& random) {
    while (true) {
      const std::size_t other = random() % list.size();
      if (other == at) continue;
      const bool collective = list[at].micro_batch < 0 || list[other].micro_batch < 0;
      if (!collective && list[at].micro_batch != list[other].micro_batch) continue;
      std::swap(list[at], list[other]);
      return to_text(list[at]);
    }
  }
  Program program_;
};

TEST(Verify, FindsEveryDroppedDuplicatedRelabelledOrSwappedInstruction) {
  std::mt19937 random(11);
  for (int round = 0; round < 5000; ++round) {
    const ScheduleShape shape{1 + static_cast<int>(random() % 3),
                              1 + static_cast<std::int64_t>(random() % 4),
                              1 + static_cast<std::int64_t>(random() % 3)};
    Saboteur saboteur(build_single_stage(shape).value());
    const std::string fault = saboteur.sabotage(random);
    EXPECT_FALSE(verify(saboteur.program()).has_value()) << fault;
  }
}

/// Micro-batches may interleave in any way: the verifier asks for no more order than is needed.
TEST(Verify, AcceptsEveryInterleavingOfMicroBatches) {
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const std::int64_t layers = 1 + static_cast<std::int64_t>(random() % 3);
    const std::int64_t batches = 1 + static_cast<std::int64_t>(random() % 4);
    std::vector<std::vector<Instruction>> chains;
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      auto chain = build_single_stage({1, layers, 1}).value().ranks[0];
      chain.resize(chain.size() - 2);
      for (Instruction& instruction : chain) instruction.micro_batch = batch;
      chains.emplace_back(chain.rbegin(), chain.rend());
    }
    Program program{layers, batches, {{}}};
    while (!chains.empty()) {
      const std::size_t which = random() % chains.size();
      program.ranks[0].push_back(chains[which].back());
      chains[which].pop_back();
      if (chains[which].empty()) chains.erase(chains.begin() + static_cast<std::ptrdiff_t>(which));
    }
    program.ranks[0].push_back({InstructionKind::kReduceGradients, -1, -1});
    program.ranks[0].push_back({InstructionKind::kOptimizerStep, -1, -1});
    const auto verdict = verify(program);
    EXPECT_TRUE(verdict.has_value()) << verdict.error().message;
  }
}

}  // namespace
}  // namespace quadrille
