// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/schedule/program.h"

namespace quadrille {

std::string to_text(const Instruction& instruction) {
  std::string text(kInstructionKindText.text(instruction.kind));
  if (instruction.layer >= 0) text += " layer " + std::to_string(instruction.layer);
  if (instruction.micro_batch >= 0)
    text += " micro-batch " + std::to_string(instruction.micro_batch);
  return text;
}

}  // namespace quadrille
