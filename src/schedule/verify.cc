// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// One pass over a rank's instructions with what has happened so far. Each micro-batch is a chain -
// load, forward of layers 0 to L-1, backward of layers L-1 to 0 - so one number per micro-batch,
// its next link, says whether an instruction comes in turn; a missing one leaves a chain short at
// the reduction. Every rank's collectives are then reduce, step, in this order, hence the same
// everywhere.

#include "quadrille/schedule/verify.h"

#include <string>
#include <vector>

namespace quadrille {
namespace {

class RankVerifier {
 public:
  RankVerifier(const Program& program, std::size_t rank)
      : program_(program),
        rank_(rank),
        next_link_(static_cast<std::size_t>(program.micro_batches), 0) {}

  Result<void> run() {
    const auto& instructions = program_.ranks[rank_];
    for (index_ = 0; index_ < instructions.size(); ++index_) {
      QD_RETURN_IF_ERROR(take(instructions[index_]));
    }
    if (!stepped_)
      return broken(reduced_ ? "the step is missing" : "reduction and step are missing");
    return {};
  }

 private:
  [[nodiscard]] std::int64_t links() const { return 1 + 2 * program_.layers; }

  /// The instruction's place in its micro-batch's chain.
  [[nodiscard]] std::int64_t link_of(const Instruction& instruction) const {
    switch (instruction.kind) {
      case InstructionKind::kForward:
        return 1 + instruction.layer;
      case InstructionKind::kBackward:
        return 2 * program_.layers - instruction.layer;
      default:
        return 0;
    }
  }
  [[nodiscard]] std::string text_of_link(std::int64_t link) const {
    if (link == 0) return "load_batch";
    if (link <= program_.layers) return "forward layer " + std::to_string(link - 1);
    return "backward layer " + std::to_string(2 * program_.layers - link);
  }

  Result<void> take(const Instruction& instruction) {
    if (stepped_) return broken("nothing may follow the step");
    switch (instruction.kind) {
      case InstructionKind::kReduceGradients:
        QD_RETURN_IF_ERROR(check_labels(instruction, false, false));
        return take_reduction();
      case InstructionKind::kOptimizerStep:
        QD_RETURN_IF_ERROR(check_labels(instruction, false, false));
        if (!reduced_) return broken("gradients are not reduced yet");
        stepped_ = true;
        return {};
      case InstructionKind::kLoadBatch:
        QD_RETURN_IF_ERROR(check_labels(instruction, true, false));
        return take_link(instruction);
      case InstructionKind::kForward:
      case InstructionKind::kBackward:
        QD_RETURN_IF_ERROR(check_labels(instruction, true, true));
        return take_link(instruction);
    }
    return broken("no such kind of instruction");
  }

  Result<void> take_reduction() {
    if (reduced_) return broken("gradients are reduced already");
    for (std::size_t batch = 0; batch < next_link_.size(); ++batch) {
      if (next_link_[batch] == links()) continue;
      return broken(text_of_link(next_link_[batch]) + " of micro-batch " + std::to_string(batch) +
                    " has not run before the reduction");
    }
    reduced_ = true;
    return {};
  }

  Result<void> take_link(const Instruction& instruction) {
    std::int64_t& next = next_link_[static_cast<std::size_t>(instruction.micro_batch)];
    const std::int64_t link = link_of(instruction);
    if (link < next) return broken("it has run already");
    if (link > next) return broken(text_of_link(next) + " must come first");
    ++next;
    return {};
  }

  Result<void> check_labels(const Instruction& instruction, bool has_batch, bool has_layer) const {
    const auto legal = [](std::int64_t value, bool present, std::int64_t count) {
      return present ? value >= 0 && value < count : value == -1;
    };
    if (!legal(instruction.micro_batch, has_batch, program_.micro_batches)) {
      return broken("micro-batch " + std::to_string(instruction.micro_batch) +
                    " does not exist here");
    }
    if (!legal(instruction.layer, has_layer, program_.layers)) {
      return broken("layer " + std::to_string(instruction.layer) + " does not exist here");
    }
    return {};
  }

  [[nodiscard]] tl::unexpected<Error> broken(const std::string& rule) const {
    const auto& instructions = program_.ranks[rank_];
    std::string text = "rank " + std::to_string(rank_) + ", ";
    text += index_ < instructions.size() ? "instruction " + std::to_string(index_) + " (" +
                                               to_text(instructions[index_]) + ")"
                                         : std::string("end of the program");
    return fail(Code::kInvalid, text + ": " + rule);
  }

  const Program& program_;
  const std::size_t rank_;
  std::size_t index_ = 0;
  std::vector<std::int64_t> next_link_;
  bool reduced_ = false;
  bool stepped_ = false;
};

}  // namespace

Result<void> verify(const Program& program) {
  if (program.layers < 1) return fail(Code::kInvalid, "a program without layers");
  if (program.micro_batches < 1) return fail(Code::kInvalid, "a program without micro-batches");
  if (program.ranks.empty()) return fail(Code::kInvalid, "a program without ranks");
  for (std::size_t rank = 0; rank < program.ranks.size(); ++rank) {
    // Legal programs have an instruction per layer and per micro-batch; this bounds what is
    // computed below.
    const auto instructions = static_cast<std::int64_t>(program.ranks[rank].size());
    if (program.micro_batches > instructions || program.layers > instructions) {
      return fail(Code::kInvalid, "rank " + std::to_string(rank) +
                                      " has too few instructions for its layers and micro-batches");
    }
    QD_RETURN_IF_ERROR(RankVerifier(program, rank).run());
  }
  return {};
}

}  // namespace quadrille
