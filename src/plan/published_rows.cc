// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/plan/published_rows.h"

#include <algorithm>

#include "plan/row_text.h"
#include "quadrille/base/hash.h"
#include "quadrille/config/device_library.h"

namespace quadrille {
namespace {

using internal::has_word;

/// Three degrees multiply without leaving 64 bits.
constexpr double kCountMost = 2e6;

std::optional<std::int64_t> whole(const Json& object, std::string_view key) {
  const Json* value = object.find(key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  const double number = value->as_number();
  if (!(number >= 1 && number <= kCountMost)) return std::nullopt;
  return static_cast<std::int64_t>(number);
}

std::optional<double> positive(const Json* object, std::string_view key) {
  const Json* value = object == nullptr ? nullptr : object->find(key);
  if (value == nullptr || !value->is_number() || !(value->as_number() > 0)) return std::nullopt;
  return value->as_number();
}

/// Takes a count; without it the row cannot be modelled.
void require(PublishedRow& row, const Json& object, std::string_view key, std::int64_t& slot) {
  if (const auto value = whole(object, key)) {
    slot = *value;
  } else if (row.unmodelled.empty()) {
    row.unmodelled = "no " + std::string(key);
  }
}

void take(PublishedRow& row, const Json& object, std::string_view key, std::int64_t& slot,
          std::int64_t otherwise) {
  const auto value = whole(object, key);
  slot = value.value_or(otherwise);
  if (!value) row.defaults.push_back(std::string(key) + ": " + std::to_string(otherwise));
}

/// GPT-2's 50,257 entries, padded as Megatron-LM does: to 128 for each rank of the tensor axis.
std::int64_t usual_vocabulary(const Json& json) {
  constexpr std::int64_t kEntries = 50257;
  const std::int64_t block = 128 * whole(json, "tp").value_or(1);
  return (kEntries + block - 1) / block * block;
}

void read_model(PublishedRow& row, const Json& json) {
  const Json* model = json.find("model");
  if (model == nullptr || !model->is_object()) {
    row.unmodelled = "no model";
    return;
  }
  TransformerShape& shape = row.run.model;
  row.model = model->string_or("name", "?");
  row.experts = model->string_or("arch", "dense") != "dense";
  require(row, *model, "layers", shape.layers);
  require(row, *model, "hidden", shape.hidden);
  require(row, *model, "heads", shape.heads);
  require(row, *model, "seq_len", shape.sequence);
  const std::string mlp = model->string_or("mlp", "gelu");
  shape.gated = mlp == "swiglu" || mlp == "geglu";
  take(row, *model, "kv_heads", shape.kv_heads, shape.heads);
  take(row, *model, "ffn", shape.ffn, 4 * shape.hidden);
  take(row, *model, "vocab", shape.vocab, usual_vocabulary(json));
  shape.positions = mlp == "gelu";
  shape.tied = mlp == "gelu";
  if (const Json* extra = json.find("extra"); extra != nullptr && extra->bool_or("untied", false)) {
    shape.tied = false;
  }
}

/// fp8 and fp4 by the text; a row without one ran in the narrowest format its device has.
NumberFormat format_of(PublishedRow& row, const DeviceSpec& device) {
  const std::string& text = row.precision;
  if (has_word(text, "fp4")) return NumberFormat::kFp4;
  if (has_word(text, "fp8")) return NumberFormat::kFp8;
  if (has_word(text, "bf16")) {
    return device.peak_of(NumberFormat::kBf16) > 0 ? NumberFormat::kBf16 : NumberFormat::kFp16;
  }
  if (has_word(text, "fp16")) return NumberFormat::kFp16;
  if (has_word(text, "tf32")) return NumberFormat::kTf32;
  if (has_word(text, "fp32")) return NumberFormat::kFp32;
  // Unstated runs on devices with fp4 units used them; on others 16 bits are the rule.
  for (const NumberFormat format : {NumberFormat::kFp4, NumberFormat::kBf16}) {
    if (device.peak_of(format) > 0) {
      row.defaults.push_back("precision: " + std::string(kNumberFormatText.text(format)));
      return format;
    }
  }
  row.defaults.emplace_back("precision: fp16");
  return NumberFormat::kFp16;
}

void read_recompute(PublishedRow& row, const Json& json) {
  const std::string text = json.string_or("recompute", "");
  RecomputeKind& kind = row.run.layout.recompute;
  if (has_word(text, "full")) {
    kind = RecomputeKind::kFull;
  } else if (has_word(text, "sac")) {
    kind = RecomputeKind::kAlternate;
  } else if (has_word(text, "selective") || has_word(text, "minimal")) {
    kind = RecomputeKind::kSelective;
  } else if (has_word(text, "none")) {
    kind = RecomputeKind::kNone;
  } else {
    row.chooses_recompute = true;
    row.defaults.push_back("recompute: the least that fits (planner's choice)");
  }
}

void read_layout(PublishedRow& row, const Json& json, std::int64_t devices) {
  RunLayout& layout = row.run.layout;
  take(row, json, "tp", layout.tensor, 1);
  take(row, json, "pp", layout.pipeline, 1);
  take(row, json, "cp", layout.context, 1);
  const std::int64_t others = layout.tensor * layout.pipeline * layout.context;
  take(row, json, "dp", layout.data, std::max<std::int64_t>(1, devices / others));
  const auto stage = json.integer_or("zero_stage", -1);
  // Distributed optimizers are what the field's systems turn on by themselves.
  const std::int64_t usual = layout.data > 1 ? 1 : 0;
  layout.sharding = static_cast<int>(std::clamp<std::int64_t>(stage < 0 ? usual : stage, 0, 3));
  if (stage < 0) row.defaults.push_back("zero_stage: " + std::to_string(usual));
  require(row, json, "global_batch", row.run.global_batch);
  if (const auto micro = whole(json, "micro_batch")) {
    layout.micro_batch = *micro;
  } else {
    row.chooses_micro_batch = true;
    row.defaults.emplace_back("micro_batch: the largest that fits (planner's choice)");
  }
  const std::string schedule = json.string_or("schedule", "");
  const auto chunks = whole(json, "interleave");
  layout.interleave = chunks.value_or(1);
  row.chooses_interleave = !chunks && layout.pipeline > 1 && !has_word(schedule, "zero");
  if (has_word(schedule, "zb-2p")) {
    layout.schedule = PipelineKind::kZeroBubbleTwo;
  } else if (has_word(schedule, "zb-1p")) {
    layout.schedule = PipelineKind::kZeroBubbleOne;
  } else if (layout.interleave > 1 || has_word(schedule, "interleaved")) {
    layout.schedule = PipelineKind::kInterleaved;
  }
  if (has_word(schedule, "1 layer per chunk")) {
    layout.interleave =
        std::max<std::int64_t>(1, (row.run.model.layers + layout.pipeline - 1) / layout.pipeline);
    row.chooses_interleave = false;
  }
  layout.embedding_as_layer = has_word(json.string_or("notes", ""), "embed");
  read_recompute(row, json);
}

void read_software(PublishedRow& row, const Json& json) {
  SoftwareTraits& software = row.run.software;
  const std::string attention = json.string_or("attention", "");
  const auto year = json.find("year") != nullptr && json.find("year")->is_number()
                        ? json.find("year")->as_integer()
                        : 2024;
  const bool stated = !attention.empty();
  software.flash =
      stated ? !has_word(attention, "non-flash") && has_word(attention, "flash") : year >= 2024;
  if (!stated)
    row.defaults.push_back(std::string("attention: ") + (software.flash ? "flash" : "plain"));
  software.fused = has_word(attention, "te fused") || has_word(attention, "cudnn") ||
                   has_word(attention, "(te)") || has_word(attention, "fused (te)") ||
                   has_word(json.string_or("notes", ""), "torch.compile") ||
                   has_word(attention, "fused-softmax");
  RunLayout& layout = row.run.layout;
  layout.sequence = json.bool_or("sequence_parallel", layout.tensor > 1 && software.flash);
  software.vendor_attention = has_word(attention, "cudnn") || has_word(attention, "te");
  const std::string notes = json.string_or("notes", "");
  const bool async =
      json.find("extra") != nullptr && json.find("extra")->bool_or("async_tp", false);
  software.overlap_tensor = async || (software.vendor_attention && layout.sequence &&
                                      !has_word(notes, "overlap options off"));
  software.flat_optimizer = !software.flash && layout.sharding >= 1;
  software.tensor_gathers = !software.flash;
  software.overlap_gradients = software.flash || layout.sharding >= 3;
  software.scatter_stages = has_word(json.string_or("notes", ""), "scatter/gather");
  // Megatron-LM's own default for bf16; recipes built on it state or unset it.
  const bool own_default =
      has_word(json.string_or("source", ""), "megatron-lm") && has_word(row.precision, "bf16");
  software.fp32_gradients = has_word(row.precision, "fp32 grad") || own_default;
  software.fused_loss = software.flash && !has_word(attention, "sdpa");
  software.fp32_reduce = has_word(row.precision, "fp32 grad") || has_word(row.precision, "amp");
}

void read_measured(PublishedRow& row, const Json& json) {
  const Json* measured = json.find("measured");
  row.step_seconds = positive(measured, "step_time_s");
  if (!row.step_seconds) row.step_seconds = positive(json.find("derived"), "step_time_s");
  const auto peak = positive(measured, "peak_mem_gb");
  if (!peak) return;
  const std::string kind = measured->string_or("mem_kind", "");
  row.peak_bytes = *peak * (has_word(kind, "1e9") ? 1e9 : 1024.0 * 1024 * 1024);
  if (has_word(kind, "nvidia-smi") || has_word(kind, "memory used")) {
    row.measure = MemoryMeasure::kDevice;
  } else if (has_word(kind, "reserved") || has_word(kind, "max over stages")) {
    row.measure = MemoryMeasure::kReserved;
  }
  if (has_word(kind, "last rank")) row.place = RankPlace::kLast;
}

PublishedRow row_from(const Json& json) {
  PublishedRow row;
  row.id = json.string_or("id", "?");
  row.group = json.string_or("group", "?");
  row.precision = internal::lowered(json.string_or("precision", ""));
  row.device = json.string_or("gpu", "?");
  row.out_of_memory = json.string_or("status", "ok") == "oom";
  read_measured(row, json);
  std::int64_t devices = 0;
  require(row, json, "num_gpus", devices);
  read_model(row, json);
  const DeviceSpec* device = find_known_device(row.device);
  if (device == nullptr) {
    if (row.unmodelled.empty()) row.unmodelled = "unknown device " + row.device;
    return row;
  }
  row.device = device->name;
  read_layout(row, json, devices);
  read_software(row, json);
  row.run.format = format_of(row, *device);
  const internal::NetworkText network = internal::network_from(json.string_or("inter_node", ""));
  const std::int64_t per_node = whole(json, "gpus_per_node").value_or(0);
  auto cluster = known_cluster({.device = device->name,
                                .count = std::max<std::int64_t>(1, devices),
                                .devices_per_node = per_node,
                                .network_bandwidth = network.bandwidth_per_device(per_node),
                                .fabric = network.fabric});
  if (cluster) {
    row.cluster = *std::move(cluster);
  } else if (row.unmodelled.empty()) {
    row.unmodelled = cluster.error().message;
  }
  if (row.unmodelled.empty() && row.run.model.heads < 1) row.unmodelled = "no heads";
  if (row.unmodelled.empty() && !row.chooses_micro_batch && row.run.micro_batches() < 1) {
    row.unmodelled = "global batch below data degree times micro-batch";
  }
  return row;
}

}  // namespace

Result<std::vector<PublishedRow>> published_rows_from(const Json& file) {
  if (!file.is_array()) return fail(Code::kInvalid, "the file of runs is no array");
  std::vector<PublishedRow> rows;
  rows.reserve(file.elements().size());
  for (const Json& element : file.elements()) {
    if (!element.is_object()) return fail(Code::kInvalid, "a run is no object");
    rows.push_back(row_from(element));
  }
  return rows;
}

bool is_fitted_to(const PublishedRow& row) { return hash64(row.id) % 2 == 0; }

namespace {

bool fits(const PublishedRow& row, const MemoryConstants& memory) {
  const double capacity = static_cast<double>(row.cluster.devices.front().memory.count());
  return rank_memory(row.run, MemoryMeasure::kDevice, RankPlace::kFullest, memory).total() <=
         capacity;
}

void choose_recompute(PublishedRow& row, const MemoryConstants& memory) {
  for (const RecomputeKind kind :
       {RecomputeKind::kNone, RecomputeKind::kSelective, RecomputeKind::kFull}) {
    row.run.layout.recompute = kind;
    if (fits(row, memory)) return;
  }
}

}  // namespace

void choose_missing(PublishedRow& row, const CostConstants& constants,
                    const MemoryConstants& memory) {
  if (!row.unmodelled.empty()) return;
  RunLayout& layout = row.run.layout;
  if (row.chooses_micro_batch) {
    layout.micro_batch = 1;
    const std::int64_t most = std::max<std::int64_t>(1, row.run.global_batch / layout.data);
    for (std::int64_t micro = 1; micro <= most; micro *= 2) {
      const std::int64_t before = layout.micro_batch;
      layout.micro_batch = micro;
      if (row.chooses_recompute) choose_recompute(row, memory);
      if (!fits(row, memory)) {
        layout.micro_batch = before;
        break;
      }
    }
  }
  if (row.chooses_interleave) {
    double best = 0;
    std::int64_t chosen = 1;
    for (std::int64_t chunks = 1; chunks * layout.pipeline <= row.run.model.layers; ++chunks) {
      if (row.run.model.layers % (chunks * layout.pipeline) != 0) continue;
      layout.interleave = chunks;
      const double seconds = step_cost(row.run, row.cluster, constants).total().count();
      if (best == 0 || seconds < best) {
        best = seconds;
        chosen = chunks;
      }
    }
    layout.interleave = chosen;
    if (chosen > 1) layout.schedule = PipelineKind::kInterleaved;
  }
  if (row.chooses_recompute) choose_recompute(row, memory);
}

}  // namespace quadrille
