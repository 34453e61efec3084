// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/program_json.h"

#include <algorithm>
#include <optional>

namespace quadrille::internal {
namespace {

Json instruction_json(const Instruction& instruction) {
  Json row = Json::array();
  row.push(kInstructionKindText.text(instruction.kind));
  row.push(instruction.micro_batch);
  row.push(instruction.layer);
  return row;
}

std::optional<Instruction> instruction_from(const Json& row) {
  if (!row.is_array() || row.elements().size() != 3) return std::nullopt;
  const Json& kind_text = row.elements()[0];
  const Json& micro_batch = row.elements()[1];
  const Json& layer = row.elements()[2];
  if (!kind_text.is_string() || !micro_batch.is_integer() || !layer.is_integer()) {
    return std::nullopt;
  }
  const auto kind = kInstructionKindText.value(kind_text.as_string());
  if (!kind) return std::nullopt;
  return Instruction{*kind, micro_batch.as_integer(), layer.as_integer()};
}

Result<std::vector<Instruction>> instructions_from(const Json& list) {
  std::vector<Instruction> instructions;
  for (const Json& row : list.elements()) {
    const auto instruction = instruction_from(row);
    if (!instruction) {
      return fail(Code::kInvalid,
                  "the plan's program has an entry that is no instruction: " + write_json(row));
    }
    instructions.push_back(*instruction);
  }
  return instructions;
}

/// One list of instructions for each rank that it names.
Result<void> add_stage(const Json& stage, Program& program, std::vector<bool>& named) {
  const Json* ranks = stage.find("ranks");
  const Json* list = stage.find("instructions");
  if (ranks == nullptr || !ranks->is_array() || list == nullptr || !list->is_array()) {
    return fail(Code::kInvalid, "the plan's program has a stage without ranks or instructions");
  }
  QD_ASSIGN_OR_RETURN(const std::vector<Instruction> instructions, instructions_from(*list));
  for (const Json& rank : ranks->elements()) {
    const std::int64_t index = rank.is_integer() ? rank.as_integer() : -1;
    const auto count = static_cast<std::int64_t>(named.size());
    if (index < 0 || index >= count || named[static_cast<std::size_t>(index)]) {
      return fail(
          Code::kInvalid,
          "the plan's program names a rank twice or one that does not exist: " + write_json(rank));
    }
    named[static_cast<std::size_t>(index)] = true;
    program.ranks[static_cast<std::size_t>(index)] = instructions;
  }
  return {};
}

}  // namespace

Json program_json(const Program& program) {
  Json stages = Json::array();
  std::vector<bool> written(program.ranks.size(), false);
  for (std::size_t first = 0; first < program.ranks.size(); ++first) {
    if (written[first]) continue;
    Json ranks = Json::array();
    for (std::size_t rank = first; rank < program.ranks.size(); ++rank) {
      if (written[rank] || program.ranks[rank] != program.ranks[first]) continue;
      written[rank] = true;
      ranks.push(static_cast<std::int64_t>(rank));
    }
    Json instructions = Json::array();
    for (const Instruction& instruction : program.ranks[first]) {
      instructions.push(instruction_json(instruction));
    }
    stages.push(
        Json::object().set("ranks", std::move(ranks)).set("instructions", std::move(instructions)));
  }
  return Json::object()
      .set("layers", program.layers)
      .set("micro_batches", program.micro_batches)
      .set("stages", std::move(stages));
}

Result<Program> program_from(const Json& json, std::int64_t ranks) {
  const Json* stages = json.find("stages");
  if (stages == nullptr || !stages->is_array()) {
    return fail(Code::kInvalid, "the plan has no program");
  }
  Program program;
  program.layers = json.integer_or("layers", 0);
  program.micro_batches = json.integer_or("micro_batches", 0);
  program.ranks.resize(static_cast<std::size_t>(ranks));
  std::vector<bool> named(program.ranks.size(), false);
  for (const Json& stage : stages->elements()) {
    QD_RETURN_IF_ERROR(add_stage(stage, program, named));
  }
  if (!std::all_of(named.begin(), named.end(), [](bool is_named) { return is_named; })) {
    return fail(Code::kInvalid, "the plan's program leaves a rank without instructions");
  }
  return program;
}

}  // namespace quadrille::internal
