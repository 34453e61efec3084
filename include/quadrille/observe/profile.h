// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a rank's steps spend their time, operation by operation, and a trace of a few of them. A
// Profiler is what a run that is profiled gives its stream (as the observer) and its trainer; a run
// without one pays nothing. Ranks write what they saw as JSON; whoever launched them merges it.

#include <array>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/ids.h"
#include "quadrille/base/json.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/observe/operation.h"

namespace quadrille {

/// The variant by which a collective tells itself from an operation.
inline constexpr std::string_view kCollectiveVariant = "collective";

/// "matmul 256x2304x768 NT bf16".
[[nodiscard]] std::string key_of(const Operation& operation);

/// Sums over the steps that count.
struct OperationProfile {
  std::string name;
  std::array<std::int64_t, 4> extents{};
  std::string variant;
  std::int64_t calls = 0;
  Seconds seconds;  ///< A collective's without the operations inside it.
  Flops flops;
  double bytes = 0;

  [[nodiscard]] std::string key() const;
  [[nodiscard]] bool is_collective() const { return variant == kCollectiveVariant; }
};

struct StepsProfile {
  std::int64_t steps = 0;  ///< That count: those after the first two of a launch.
  int ranks = 1;
  int threads = 0;  ///< Of each rank.
  Seconds seconds;  ///< Of the steps, mean over ranks; operations likewise.
  std::vector<OperationProfile> operations;  ///< Most seconds first.
  double page_faults = 0;                    ///< Of a rank's process in the steps, mean over ranks.
  double leases = 0;                         ///< Of a rank's pool in the steps, mean over ranks.

  /// Of the steps, what no operation covers.
  [[nodiscard]] Seconds between() const;
};
[[nodiscard]] Json to_json(const StepsProfile& profile);
/// Errors: kCorrupt naming what is missing.
[[nodiscard]] Result<StepsProfile> steps_profile_from(const Json& json);
/// Means over ranks of equally many steps. Not empty.
[[nodiscard]] StepsProfile merge(std::span<const StepsProfile> ranks);

enum class SpanKind : std::uint8_t { kStep, kInstruction, kOperation, kCollective, kSave };
inline constexpr std::size_t kSpanKindCount = 5;
inline constexpr EnumTable<SpanKind, kSpanKindCount> kSpanKindText{
    {{{SpanKind::kStep, "steps"},
      {SpanKind::kInstruction, "instructions"},
      {SpanKind::kOperation, "operations"},
      {SpanKind::kCollective, "collectives"},
      {SpanKind::kSave, "saves"}}}};

struct TraceSpan {
  SpanKind kind = SpanKind::kOperation;
  std::string name;
  Seconds begin;
  Seconds end;
  Flops flops;
  Bytes bytes;
};

/// One rank's part of a trace. `clock` says whose monotonic time the spans are in: ranks of equal
/// clocks need no shifting.
struct RankTrace {
  Rank rank;
  std::string clock;
  std::vector<TraceSpan> spans;
};
[[nodiscard]] Json to_json(const RankTrace& trace);
/// Errors: kCorrupt naming what is missing.
[[nodiscard]] Result<RankTrace> rank_trace_from(const Json& json);
/// The text of a trace file in Chrome's JSON format, which Perfetto opens: a process for each rank,
/// a row for each kind of span, microseconds from the first span on. A rank of another clock is
/// moved so that its first span begins with rank 0's.
[[nodiscard]] std::string chrome_trace(std::span<const RankTrace> ranks);

/// Names this host's monotonic clock.
[[nodiscard]] std::string clock_name();
/// Of this process so far, those that needed no disk.
[[nodiscard]] std::int64_t page_faults();

struct ProfilerOptions {
  Rank rank;
  int threads = 1;
  std::int64_t skipped_steps = 2;  ///< First steps make primitives and touch memory.
  std::int64_t traced_steps = 3;   ///< After those.
};

/// One rank's. Safe from the stream's thread and the rank's.
class Profiler final : public OperationObserver {
 public:
  explicit Profiler(const ProfilerOptions& options) : options_(options) {}

  /// `leases_made` is the pool's count so far.
  void begin_step(std::int64_t step, std::int64_t leases_made);
  void end_step(std::int64_t leases_made);
  void ran(const OperationSpan& span) override;
  /// A span of the trace alone.
  void add(SpanKind kind, std::string name, Seconds begin, Seconds end);

  [[nodiscard]] StepsProfile profile() const;
  [[nodiscard]] RankTrace trace() const;

 private:
  using Key = std::tuple<std::string_view, std::array<std::int64_t, 4>, std::string_view>;
  [[nodiscard]] bool is_traced() const;
  [[nodiscard]] Seconds inside(Seconds begin) const;

  ProfilerOptions options_;
  mutable std::mutex mutex_;  // Guards all below.
  std::int64_t begun_ = 0;    ///< Steps of this launch.
  std::int64_t step_ = 0;     ///< The run's number of the last one.
  bool in_step_ = false;
  Seconds step_begin_;
  std::int64_t faults_at_begin_ = 0;
  std::int64_t leases_at_begin_ = 0;
  StepsProfile sums_;
  std::map<Key, OperationProfile> operations_;
  std::vector<std::pair<Seconds, Seconds>> since_collective_;  ///< Begin and length.
  std::vector<TraceSpan> spans_;
};

/// Adds the time of a scope to a profiler's trace; nothing where there is none. `name` is called
/// only where it is needed.
template <class Name>
class TraceScope {
 public:
  TraceScope(Profiler* profiler, SpanKind kind, Name name)
      : profiler_(profiler), kind_(kind), name_(std::move(name)) {
    if (profiler_ != nullptr) begin_ = monotonic_now();
  }
  ~TraceScope() {
    if (profiler_ != nullptr) profiler_->add(kind_, name_(), begin_, monotonic_now());
  }
  TraceScope(const TraceScope&) = delete;
  TraceScope& operator=(const TraceScope&) = delete;

 private:
  Profiler* profiler_;
  SpanKind kind_;
  Name name_;
  Seconds begin_;
};

}  // namespace quadrille
