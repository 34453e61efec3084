// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/watch.h"

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <string>

namespace quadrille::internal {
namespace {

constexpr Seconds kFirstLookAtTable(1.0);  // below, a difference is mostly a rank on its way
constexpr Seconds kBetweenLooks(0.5);
constexpr Seconds kWarnAfter(3.0);
constexpr std::int64_t kTurnsPerLook = 64;  // while spinning; a look costs about 30 ns

bool is_dead(int pid) { return pid > 0 && kill(pid, 0) != 0 && errno == ESRCH; }

/// Stopped by SIGSTOP or a debugger: the letter after the command's closing parenthesis.
bool is_stopped(int pid) {
  if (pid <= 0) return false;
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  std::getline(file, line);
  const std::size_t end = line.rfind(')');
  if (end == std::string::npos || end + 2 >= line.size()) return false;
  return line[end + 2] == 'T' || line[end + 2] == 't';
}

}  // namespace

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
      if (entry.group != group_.id || entry.sequence != sequence_) continue;
      if (entry.operation != call_.operation.substr(0, 23) || entry.bytes != call_.bytes) {
        code = code.value_or(Code::kInvalid);
      }
    }
  }
  if (!code) return std::nullopt;
  const auto culprit = find_culprit(table, group_.id, sequence_, group_.members);
  return Error{*code, culprit.value_or(describe(missing) + " is lost") + "; " + waiting(), {}};
}

Error Watch::timed_out(Seconds waited, const std::vector<Rank>& missing) const {
  std::string text = fmt::format("{} for {}: ", waiting(), to_text(waited));
  std::optional<std::string> culprit;
  if (const FlightTable* table = group_.options->recorder; table != nullptr) {
    culprit = find_culprit(*table, group_.id, sequence_, group_.members);
  }
  text +=
      culprit.value_or(describe(missing) + (missing.size() == 1 ? " has" : " have") + " not come");
  return Error{Code::kTimeout, std::move(text), {}};
}

void Watch::warn(Seconds waited, const std::vector<Rank>& missing) const {
  Logger* log = group_.options->log;
  if (log == nullptr) return;
  std::string text = fmt::format("{} for {}:", waiting(), to_text(waited));
  for (const Rank rank : missing) text += " for " + whereabouts(rank);
  log->warning(text);
}

std::string Watch::whereabouts(Rank rank) const {
  const FlightTable* table = group_.options->recorder;
  if (table == nullptr) return fmt::format("rank {}", rank.value);
  const int pid = table->process(rank);
  std::string text = fmt::format("rank {} (pid {}{})", rank.value, pid,
                                 is_stopped(pid) ? ", stopped by a signal" : "");
  const auto last = table->entries(rank, 1);
  if (last.empty()) return text + ", which has not communicated yet";
  return text + fmt::format(", last {} {} #{} at {}", last[0].finished ? "after" : "in",
                            last[0].operation, last[0].sequence, last[0].place);
}

std::string Watch::waiting() const {
  return fmt::format("rank {} waits in {}", group_.world_rank().value, describe(call_));
}

}  // namespace quadrille::internal
