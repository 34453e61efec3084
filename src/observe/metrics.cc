// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// metrics.jsonl: rows to text and back.

#include <cmath>
#include <limits>

#include "quadrille/observe/run_record.h"

namespace quadrille {
namespace {

Json number_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

std::optional<double> optional_number(const Json& row, std::string_view key) {
  const Json* value = row.find(key);
  if (value == nullptr || !value->is_number()) return std::nullopt;
  return value->as_number();
}

/// NaN where the figure is null, as it was written.
double number(const Json& row, std::string_view key) {
  return row.number_or(key, std::numeric_limits<double>::quiet_NaN());
}

Seconds seconds(const Json& row, std::string_view key) { return Seconds(number(row, key)); }

/// Calls `take(line, row)` for each line that is a whole row; a torn or foreign line is left out.
template <class Take>
void for_each_row(std::string_view text, Take take) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return;  // torn: its writer was killed
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const auto json = parse_json(line, {});
    if (!json) continue;
    if (const auto row = step_record_from(*json)) take(line, *row);
  }
}

}  // namespace

Json to_json(const StepRecord& record) {
  Json tags = Json::object();
  for (const auto& [tag, bytes] : record.peak_by_tag) tags.set(tag, bytes.count());
  Json row = Json::object();
  const double seconds = record.seconds.count();
  row.set("step", record.step).set("loss", record.loss).set("tokens", record.tokens);
  row.set("seconds", seconds);
  row.set("tokens_per_second",
          seconds > 0 ? Json(static_cast<double>(record.tokens) / seconds) : Json());
  row.set("mfu", number_or_null(record.mfu));
  row.set("gradient_norm", record.gradient_norm).set("learning_rate", record.learning_rate);
  row.set("compute_seconds", record.compute.count());
  row.set("communication_seconds", record.communication.count());
  row.set("exposed_communication_seconds", record.exposed_communication.count());
  row.set("bubble_seconds", record.bubble.count());
  row.set("data_seconds", record.data.count());
  row.set("other_seconds", record.other.count());
  row.set("checkpoint_wait_seconds", record.checkpoint_wait.count());
  row.set("peak_bytes", record.peak.count()).set("peak_bytes_by_tag", std::move(tags));
  if (record.validation_loss) row.set("validation_loss", *record.validation_loss);
  return row;
}

Result<StepRecord> step_record_from(const Json& row) {
  const Json* step = row.find("step");
  if (step == nullptr || !step->is_integer() || step->as_integer() < 1) {
    return fail(Code::kCorrupt, "a row of metrics has no step");
  }
  StepRecord record;
  record.step = step->as_integer();
  record.loss = number(row, "loss");
  record.tokens = row.integer_or("tokens", 0);
  record.seconds = seconds(row, "seconds");
  record.mfu = optional_number(row, "mfu");
  record.gradient_norm = number(row, "gradient_norm");
  record.learning_rate = number(row, "learning_rate");
  record.compute = seconds(row, "compute_seconds");
  record.communication = seconds(row, "communication_seconds");
  record.exposed_communication = seconds(row, "exposed_communication_seconds");
  record.bubble = seconds(row, "bubble_seconds");
  record.data = seconds(row, "data_seconds");
  record.other = seconds(row, "other_seconds");
  record.checkpoint_wait = seconds(row, "checkpoint_wait_seconds");
  record.peak = Bytes(row.integer_or("peak_bytes", 0));
  if (const Json* tags = row.find("peak_bytes_by_tag"); tags != nullptr && tags->is_object()) {
    for (const auto& [tag, bytes] : tags->members()) {
      if (bytes.is_integer()) record.peak_by_tag[tag] = Bytes(bytes.as_integer());
    }
  }
  record.validation_loss = optional_number(row, "validation_loss");
  return record;
}

Result<MetricsWriter> MetricsWriter::open(const std::string& path, std::int64_t resume_step) {
  QD_CHECK(resume_step >= 0);
  if (path_exists(path)) {
    QD_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
    std::string kept;
    for_each_row(text, [&](std::string_view line, const StepRecord& row) {
      if (row.step <= resume_step) kept.append(line).push_back('\n');
    });
    if (kept != text) QD_RETURN_IF_ERROR(write_file_atomically(path, kept));
  }
  QD_ASSIGN_OR_RETURN(AppendFile file, AppendFile::open(path));
  return MetricsWriter(std::move(file));
}

Result<void> MetricsWriter::append(const StepRecord& record) {
  return file_.append_line(write_json(to_json(record)));
}

Result<std::vector<StepRecord>> read_metrics(const std::string& path) {
  QD_ASSIGN_OR_RETURN(const std::string text, read_text_file(path));
  std::vector<StepRecord> rows;
  for_each_row(text, [&](std::string_view, const StepRecord& row) { rows.push_back(row); });
  return rows;
}

}  // namespace quadrille
