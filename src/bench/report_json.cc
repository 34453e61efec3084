// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Reports as JSON and back.

#include "quadrille/base/file.h"
#include "quadrille/bench/report.h"

namespace quadrille {
namespace {

Json to_json(const Figure& figure) {
  return Json::object()
      .set("median", figure.median)
      .set("lowest", figure.lowest)
      .set("highest", figure.highest)
      .set("count", figure.count);
}

Json to_json(const BenchPeer& peer) {
  return Json::object()
      .set("name", peer.name)
      .set("value", to_json(peer.value))
      .set("ratio", to_json(peer.ratio))
      .set("aim", peer.aim ? Json(*peer.aim) : Json());
}

Json to_json(const BenchRow& row) {
  Json peers = Json::array();
  for (const BenchPeer& peer : row.peers) peers.push(to_json(peer));
  return Json::object()
      .set("name", row.name)
      .set("unit", row.unit)
      .set("value", to_json(row.value))
      .set("more_is_better", row.more_is_better)
      .set("peers", std::move(peers));
}

/// Takes members of an object, and keeps the first one that is not as it must be.
class Reader {
 public:
  explicit Reader(std::string what) : what_(std::move(what)) {}

  std::string text(const Json& json, const char* key) {
    const Json* value = json.find(key);
    if (value != nullptr && value->is_string()) return value->as_string();
    return miss(key, "text"), std::string();
  }
  double number(const Json& json, const char* key) {
    const Json* value = json.find(key);
    if (value != nullptr && value->is_number()) return value->as_number();
    return miss(key, "a number"), 0.0;
  }
  std::vector<Json> array(const Json& json, const char* key) {
    const Json* value = json.find(key);
    if (value != nullptr && value->is_array()) return value->elements();
    return miss(key, "an array"), std::vector<Json>();
  }
  Figure figure(const Json& json, const char* key) {
    const Json* value = json.find(key);
    if (value == nullptr || !value->is_object()) return miss(key, "an object"), Figure();
    return {number(*value, "median"), number(*value, "lowest"), number(*value, "highest"),
            static_cast<std::int64_t>(number(*value, "count"))};
  }
  [[nodiscard]] Result<void> result() const {
    if (missing_.empty()) return {};
    return fail(Code::kInvalid, what_ + " is no benchmark's report: " + missing_);
  }

 private:
  void miss(const char* key, const char* kind) {
    if (missing_.empty()) missing_ = std::string("\"") + key + "\" is not " + kind;
  }
  std::string what_;
  std::string missing_;
};

BenchRow row_from(Reader& reader, const Json& json) {
  BenchRow row;
  row.name = reader.text(json, "name");
  row.unit = reader.text(json, "unit");
  row.value = reader.figure(json, "value");
  row.more_is_better = json.bool_or("more_is_better", false);
  for (const Json& peer : reader.array(json, "peers")) {
    const Json* aim = peer.find("aim");
    row.peers.push_back(
        {reader.text(peer, "name"), reader.figure(peer, "value"), reader.figure(peer, "ratio"),
         aim != nullptr && aim->is_number() ? std::optional(aim->as_number()) : std::nullopt});
  }
  return row;
}

}  // namespace

Json to_json(const BenchReport& report) {
  Json rows = Json::array();
  for (const BenchRow& row : report.rows) rows.push(to_json(row));
  Json notes = Json::array();
  for (const std::string& note : report.notes) notes.push(note);
  return Json::object()
      .set("name", report.name)
      .set("date", report.date)
      .set("machine", report.machine)
      .set("build", report.build)
      .set("rows", std::move(rows))
      .set("notes", std::move(notes));
}

Result<BenchReport> bench_report_from(const Json& json) {
  Reader reader("this JSON");
  BenchReport report;
  report.name = reader.text(json, "name");
  report.date = reader.text(json, "date");
  report.machine = reader.text(json, "machine");
  report.build = reader.text(json, "build");
  for (const Json& row : reader.array(json, "rows")) report.rows.push_back(row_from(reader, row));
  for (const Json& note : reader.array(json, "notes")) {
    if (note.is_string()) report.notes.push_back(note.as_string());
  }
  QD_RETURN_IF_ERROR(reader.result());
  return report;
}

Result<std::vector<BenchReport>> read_reports(const std::string& path) {
  QD_ASSIGN_OR_RETURN(const Json json, read_json_file(path));
  const Json* all = json.find("reports");
  if (all != nullptr && !all->is_array()) {
    return fail(Code::kInvalid, path + ": \"reports\" is not an array");
  }
  const std::vector<Json> each = all == nullptr ? std::vector<Json>{json} : all->elements();
  std::vector<BenchReport> reports;
  for (const Json& one : each) {
    auto report = bench_report_from(one);
    if (!report) return fail(with_context(std::move(report).error(), path));
    reports.push_back(*std::move(report));
  }
  return reports;
}

}  // namespace quadrille
