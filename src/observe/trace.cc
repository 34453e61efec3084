// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// A trace: each rank's part as JSON and back, and all parts as one file of Chrome's trace format.

#include <algorithm>
#include <fstream>

#include "quadrille/observe/profile.h"

namespace quadrille {
namespace {

constexpr double kMicrosecond = 1e-6;

Json to_json(const TraceSpan& span) {
  Json row = Json::array();
  row.push(kSpanKindText.text(span.kind)).push(span.name);
  row.push(span.begin.count()).push(span.end.count());
  row.push(span.flops.count()).push(span.bytes.count());
  return row;
}

Result<TraceSpan> span_from(const Json& row) {
  constexpr std::size_t kFields = 6;
  const Error broken{
      Code::kCorrupt, "a span of a trace is not [kind, name, begin, end, flops, bytes]", {}};
  if (!row.is_array() || row.elements().size() != kFields) return fail(broken);
  const std::vector<Json>& field = row.elements();
  if (!field[0].is_string() || !field[1].is_string()) return fail(broken);
  for (std::size_t i = 2; i < kFields; ++i) {
    if (!field[i].is_number()) return fail(broken);
  }
  const auto kind = kSpanKindText.value(field[0].as_string());
  if (!kind) return fail(broken);
  return TraceSpan{*kind,
                   field[1].as_string(),
                   Seconds(field[2].as_number()),
                   Seconds(field[3].as_number()),
                   Flops(field[4].as_number()),
                   Bytes(static_cast<std::int64_t>(field[5].as_number()))};
}

Seconds first_begin(const RankTrace& trace) {
  const auto first =
      std::min_element(trace.spans.begin(), trace.spans.end(),
                       [](const auto& a, const auto& b) { return a.begin < b.begin; });
  return first == trace.spans.end() ? Seconds() : first->begin;
}

/// A row of the viewer is a thread of a process: the rank.
int row_of(SpanKind kind) { return static_cast<int>(kind) + 1; }

Json name_event(const char* what, int process, int thread, const std::string& name) {
  Json event = Json::object();
  event.set("ph", "M").set("name", what).set("pid", process);
  if (thread > 0) event.set("tid", thread);
  return event.set("args", Json::object().set("name", name));
}

Json span_event(const TraceSpan& span, int process, Seconds origin) {
  Json event = Json::object();
  event.set("ph", "X").set("name", span.name).set("cat", kSpanKindText.text(span.kind));
  event.set("pid", process).set("tid", row_of(span.kind));
  event.set("ts", (span.begin - origin).count() / kMicrosecond);
  const double length = (span.end - span.begin).count();
  event.set("dur", length / kMicrosecond);
  Json facts = Json::object();
  if (span.flops > Flops()) {
    facts.set("flops", span.flops.count());
    if (length > 0) facts.set("flops_per_second", span.flops.count() / length);
  }
  if (span.bytes > Bytes()) {
    facts.set("bytes", span.bytes.count());
    if (length > 0) facts.set("bytes_per_second", static_cast<double>(span.bytes.count()) / length);
  }
  if (!facts.members().empty()) event.set("args", std::move(facts));
  return event;
}

/// What is subtracted from a rank's times.
Seconds origin_of(const RankTrace& trace, std::span<const RankTrace> ranks) {
  Seconds origin = first_begin(trace);
  if (trace.clock != ranks.front().clock) return origin;
  for (const RankTrace& other : ranks) {
    if (other.clock == trace.clock && !other.spans.empty()) {
      origin = std::min(origin, first_begin(other));
    }
  }
  return origin;
}

}  // namespace

Json to_json(const RankTrace& trace) {
  Json spans = Json::array();
  for (const TraceSpan& span : trace.spans) spans.push(to_json(span));
  return Json::object()
      .set("rank", trace.rank.value)
      .set("clock", trace.clock)
      .set("spans", std::move(spans));
}

Result<RankTrace> rank_trace_from(const Json& json) {
  const Json* spans = json.find("spans");
  if (spans == nullptr || !spans->is_array()) return fail(Code::kCorrupt, "a trace has no spans");
  RankTrace trace;
  trace.rank = Rank{static_cast<int>(json.integer_or("rank", 0))};
  trace.clock = json.string_or("clock", "");
  for (const Json& row : spans->elements()) {
    QD_ASSIGN_OR_RETURN(TraceSpan span, span_from(row));
    trace.spans.push_back(std::move(span));
  }
  return trace;
}

std::string chrome_trace(std::span<const RankTrace> ranks) {
  Json events = Json::array();
  for (const RankTrace& trace : ranks) {
    const int process = trace.rank.value;
    events.push(name_event("process_name", process, 0, "rank " + std::to_string(process)));
    for (const auto& [kind, name] : kSpanKindText.rows) {
      events.push(name_event("thread_name", process, row_of(kind), std::string(name)));
    }
    const Seconds origin = origin_of(trace, ranks);
    for (const TraceSpan& span : trace.spans) events.push(span_event(span, process, origin));
  }
  Json file = Json::object();
  file.set("displayTimeUnit", "ms").set("traceEvents", std::move(events));
  return write_json(file) + "\n";
}

std::string clock_name() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string name;
  file >> name;
  return name;
}

}  // namespace quadrille
