// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// A training step as data: typed instructions per rank, built by a builder (builders.h), proved by
// the verifier (verify.h), sized (lifetimes.h), printed, simulated and executed from the same
// value. The executor is one switch over InstructionKind.

#include <cstdint>
#include <string>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/ids.h"

namespace quadrille {

enum class InstructionKind : std::uint8_t {
  kLoadBatch,  ///< Fetch the tokens of `micro_batch`.
  kForward,    ///< Forward of `layer` for `micro_batch`; the last layer's computes the loss too.
  kBackward,   ///< Backward of `layer` for `micro_batch`; adds to its gradients.
  kReduceGradients,  ///< Every gradient is the sum over the data axis once this has ended.
  kOptimizerStep,    ///< Scale by the token count, clip by the global norm, AdamW.
};
inline constexpr EnumTable<InstructionKind, 5> kInstructionKindText{
    {{{InstructionKind::kLoadBatch, "load_batch"},
      {InstructionKind::kForward, "forward"},
      {InstructionKind::kBackward, "backward"},
      {InstructionKind::kReduceGradients, "reduce_gradients"},
      {InstructionKind::kOptimizerStep, "optimizer_step"}}}};

struct Instruction {
  InstructionKind kind = InstructionKind::kLoadBatch;
  std::int64_t micro_batch = -1;  ///< From 0; -1 where none applies.
  std::int64_t layer = -1;        ///< From 0 (embedding) to layers-1 (head); -1 where none applies.
  friend bool operator==(const Instruction&, const Instruction&) = default;
};

/// "forward layer 3 micro-batch 0".
[[nodiscard]] std::string to_text(const Instruction& instruction);

/// Immutable once built.
struct Program {
  std::int64_t layers = 0;         ///< As layer_count() counts them: embedding and head included.
  std::int64_t micro_batches = 0;  ///< On each rank.
  std::vector<std::vector<Instruction>> ranks;
};

}  // namespace quadrille
