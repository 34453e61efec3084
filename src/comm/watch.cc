// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/watch.h"

#include <fmt/format.h>
#include <sched.h>
#include <time.h>

#include <fstream>
#include <string>

namespace quadrille::internal {
namespace {

constexpr Seconds kFirstLookAtTable(1.0);  // below, a difference is mostly a rank on its way
constexpr Seconds kBetweenLooks(0.5);
constexpr Seconds kWarnAfter(3.0);
constexpr std::int64_t kTurnsPerLook = 64;  // while spinning; a look costs about 30 ns

}  // namespace

bool is_dead(int pid) {
  if (pid <= 0) return false;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return true;
  const std::size_t end = line.rfind(')');  // of the command; the state's letter follows
  if (end == std::string::npos || end + 2 >= line.size()) return false;
  return line[end + 2] == 'Z' || line[end + 2] == 'X';
}

void Backoff::turn() {
  if (turn_ < kPauses) {
    ++turn_;
    __builtin_ia32_pause();
  } else if (turn_ < kPauses + kYields) {
    ++turn_;
    sched_yield();
  } else {
    const int sleeps = turn_ - kPauses - kYields;
    if (sleeps < 20) ++turn_;
    const timespec pause{0, 10'000L * (sleeps + 1)};
    nanosleep(&pause, nullptr);
  }
}

Result<void> Watch::turn(Awaited& awaited) {
  backoff_.turn();
  const bool first = turns_++ == 0;
  if (first) {
    started_ = monotonic_now();
    next_look_at_table_ = started_ + kFirstLookAtTable;
  }
  if (backoff_.brief() && turns_ % kTurnsPerLook != 0) return {};
  return look(awaited);
}

Result<void> Watch::look(Awaited& awaited) {
  const WorldOptions& options = *group_.options;
  if (options.stop != nullptr && options.stop->abort_requested()) {
    return fail(Code::kAborted, "stopped at once on request while " + waiting());
  }
  if (auto lost = awaited.lost()) {
    return fail(Error{lost->code, lost->message + "; " + waiting(), {}});
  }
  const Seconds now = monotonic_now();
  const Seconds waited = now - started_;
  if (waited > options.timeout) return fail(timed_out(waited, awaited.missing()));
  if (options.recorder != nullptr && now > next_look_at_table_) {
    next_look_at_table_ = now + kBetweenLooks;
    if (auto fault = definite_fault(awaited.missing())) return fail(*std::move(fault));
  }
  if (!warned_ && waited > kWarnAfter) {
    warned_ = true;
    warn(waited, awaited.missing());
  }
  return {};
}

std::optional<Error> Watch::definite_fault(const std::vector<Rank>& missing) const {
  const FlightTable& table = *group_.options->recorder;
  std::optional<Code> code;
  for (const Rank rank : missing) {
    if (table.returned(rank) || is_dead(table.process(rank))) code = Code::kUnavailable;
    for (const FlightEntry& entry : table.entries(rank)) {
      if (entry.group != group_.id || entry.sequence != call_.sequence) continue;
      if (entry.operation != call_.operation.substr(0, 23) || entry.bytes != call_.bytes) {
        code = code.value_or(Code::kInvalid);
      }
    }
  }
  if (!code) return std::nullopt;
  return Error{*code, culprit(missing) + "; " + waiting(), {}};
}

Error Watch::timed_out(Seconds waited, const std::vector<Rank>& missing) const {
  return Error{Code::kTimeout,
               fmt::format("{} for {}: {}", waiting(), to_text(waited), culprit(missing)),
               {}};
}

void Watch::warn(Seconds waited, const std::vector<Rank>& missing) const {
  if (Logger* log = group_.options->log; log != nullptr) {
    log->warning(fmt::format("{} for {}: {}", waiting(), to_text(waited), culprit(missing)));
  }
}

std::string Watch::culprit(const std::vector<Rank>& missing) const {
  if (const FlightTable* table = group_.options->recorder; table != nullptr) {
    if (auto named = find_culprit(*table, group_.id, call_.sequence, group_.members)) return *named;
  }
  return describe(missing) + (missing.size() == 1 ? " has" : " have") + " not come";
}

std::string Watch::waiting() const {
  return fmt::format("rank {} waits in {}", group_.world_rank().value, describe(call_));
}

}  // namespace quadrille::internal
