// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>

#include "quadrille/base/units.h"
#include "quadrille/schedule/builders.h"

namespace quadrille {
namespace {

/// Beyond this the program itself would need gigabytes.
constexpr std::int64_t kMostInstructions = std::int64_t{1} << 26;

Result<void> check_count(const char* what, std::int64_t count) {
  if (count >= 1) return {};
  return fail(Code::kInvalid,
              "a schedule of " + std::to_string(count) + " " + what + "; expected at least 1");
}

/// ranks * micro-batches * (one load, a forward and a backward per layer), if that is a number.
std::optional<std::int64_t> instruction_count(const ScheduleShape& shape) {
  const auto passes = checked_multiply(shape.layers, 2);
  const auto batches = checked_multiply(shape.ranks, shape.micro_batches);
  const auto each = passes ? checked_add(*passes, 1) : std::nullopt;
  return each && batches ? checked_multiply(*each, *batches) : std::nullopt;
}

}  // namespace

Result<Program> build_single_stage(const ScheduleShape& shape) {
  QD_RETURN_IF_ERROR(check_count("ranks", shape.ranks));
  QD_RETURN_IF_ERROR(check_count("layers", shape.layers));
  QD_RETURN_IF_ERROR(check_count("micro-batches", shape.micro_batches));
  const auto count = instruction_count(shape);
  if (!count || *count > kMostInstructions) {
    return fail(Code::kInvalid, "a schedule of more than 2^26 instructions");
  }
  std::vector<Instruction> instructions;
  for (std::int64_t batch = 0; batch < shape.micro_batches; ++batch) {
    instructions.push_back({InstructionKind::kLoadBatch, batch, -1});
    for (std::int64_t layer = 0; layer < shape.layers; ++layer) {
      instructions.push_back({InstructionKind::kForward, batch, layer});
    }
    for (std::int64_t layer = shape.layers; layer-- > 0;) {
      instructions.push_back({InstructionKind::kBackward, batch, layer});
    }
  }
  instructions.push_back({InstructionKind::kReduceGradients, -1, -1});
  instructions.push_back({InstructionKind::kOptimizerStep, -1, -1});
  return Program{shape.layers, shape.micro_batches,
                 std::vector(static_cast<std::size_t>(shape.ranks), instructions)};
}

}  // namespace quadrille
