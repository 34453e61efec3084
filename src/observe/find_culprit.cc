// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// From the rings to one sentence. A rank that can no longer come (dead, returned, stopped) explains
// all that is missing elsewhere and is named first; then one that calls something else; then one
// that is merely not there yet.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "observe/process_state.h"
#include "quadrille/observe/flight_recorder.h"

namespace quadrille {
namespace {

using internal::ProcessState;

/// What one member's ring says about the collective in question.
struct Witness {
  Rank rank;
  int pid = 0;
  bool returned = false;
  ProcessState state = ProcessState::kRunning;
  std::int64_t step = 0;
  std::optional<FlightEntry> here;  ///< Its entry of the collective, if it came.
  std::optional<FlightEntry> last;  ///< Its newest entry of any group.
  bool passed = false;              ///< It is beyond the collective.
};

Witness question(const FlightTable& table, std::uint64_t group, std::uint64_t sequence, Rank rank) {
  Witness witness;
  witness.rank = rank;
  witness.pid = table.process(rank);
  witness.returned = table.returned(rank);
  witness.step = table.step(rank);
  if (witness.pid > 0) witness.state = internal::process_state(witness.pid);
  for (FlightEntry& entry : table.entries(rank, SIZE_MAX)) {
    if (entry.group == group && entry.sequence == sequence) witness.here = entry;
    if (entry.group == group && entry.sequence > sequence) witness.passed = true;
    witness.last = std::move(entry);
  }
  if (witness.here && witness.here->finished) witness.passed = true;
  return witness;
}

std::string name_of(const Witness& witness) {
  if (witness.pid == 0) return fmt::format("rank {}", witness.rank.value);
  return fmt::format("rank {} (pid {})", witness.rank.value, witness.pid);
}

std::string place_of(const FlightEntry& entry) {
  return entry.place.empty() ? "" : " at " + entry.place;
}

std::string call_of(const FlightEntry& entry) {
  return fmt::format("{} of {} bytes{}", entry.operation, entry.bytes, place_of(entry));
}

/// ", last in all_reduce #17 at bucket 3", or where it hangs now.
std::string last_place(const Witness& witness) {
  if (!witness.last) return ", in no collective so far";
  return fmt::format(", {} in {} #{}{}", witness.last->finished ? "last" : "and is",
                     witness.last->operation, witness.last->sequence, place_of(*witness.last));
}

std::optional<std::string> describe_gone(const Witness& witness) {
  if (witness.passed) return std::nullopt;
  const std::string last = last_place(witness);
  const std::string step = witness.step > 0 ? fmt::format(" in step {}", witness.step) : "";
  if (witness.returned) return fmt::format("{} has returned{}", name_of(witness), last);
  if (witness.state == ProcessState::kDead)
    return fmt::format("{} has died{}{}", name_of(witness), step, last);
  if (witness.state == ProcessState::kStopped) {
    return fmt::format("{} is stopped (SIGSTOP or a debugger){}{}", name_of(witness), step, last);
  }
  return std::nullopt;
}

/// The call that most members made; of equally many, the lowest rank's.
FlightEntry common_call(const std::vector<Witness>& witnesses) {
  std::map<std::pair<std::string, std::int64_t>, int> votes;
  const FlightEntry* best = nullptr;
  const auto count = [&](const FlightEntry& entry) -> int& {
    return votes[{entry.operation, entry.bytes}];
  };
  for (const Witness& witness : witnesses) {
    if (witness.here) ++count(*witness.here);
  }
  for (const Witness& witness : witnesses) {
    if (witness.here && (best == nullptr || count(*witness.here) > count(*best)))
      best = &*witness.here;
  }
  return *best;
}

std::optional<std::string> describe_difference(const std::vector<Witness>& witnesses) {
  const bool anyone =
      std::any_of(witnesses.begin(), witnesses.end(), [](const Witness& w) { return !!w.here; });
  if (!anyone) return std::nullopt;
  const FlightEntry common = common_call(witnesses);
  const auto agrees = [&](const Witness& witness) {
    return witness.here && std::tie(witness.here->operation, witness.here->bytes) ==
                               std::tie(common.operation, common.bytes);
  };
  const auto agreeing = std::count_if(witnesses.begin(), witnesses.end(), agrees);
  for (const Witness& witness : witnesses) {
    if (!witness.here || agrees(witness)) continue;
    const auto other = std::find_if(witnesses.begin(), witnesses.end(), agrees);
    const std::string others =
        agreeing == 1 ? fmt::format("rank {} calls", other->rank.value) : "the others call";
    return fmt::format("{} calls {} where {} {}", name_of(witness), call_of(*witness.here), others,
                       call_of(common));
  }
  return std::nullopt;
}

std::optional<std::string> describe_absent(const std::vector<Witness>& witnesses) {
  std::vector<const Witness*> absent;
  for (const Witness& witness : witnesses) {
    if (!witness.here && !witness.passed) absent.push_back(&witness);
  }
  if (absent.empty() || absent.size() == witnesses.size()) return std::nullopt;
  const Witness& first = *absent.front();
  std::string text = fmt::format("{} has not come", name_of(first));
  if (first.step > 0) text += fmt::format(": it is in step {}", first.step);
  text += last_place(first);
  if (absent.size() == 1) return text;
  text += "; nor have ranks";
  for (std::size_t i = 1; i < absent.size(); ++i) {
    text += fmt::format("{} {}", i == 1 ? "" : ",", absent[i]->rank.value);
  }
  return text;
}

}  // namespace

std::optional<std::string> find_culprit(const FlightTable& table, std::uint64_t group,
                                        std::uint64_t sequence, const std::vector<Rank>& members) {
  std::vector<Witness> witnesses;
  for (const Rank rank : members) witnesses.push_back(question(table, group, sequence, rank));
  for (const Witness& witness : witnesses) {
    if (auto gone = describe_gone(witness)) return gone;
  }
  if (auto difference = describe_difference(witnesses)) return difference;
  return describe_absent(witnesses);
}

}  // namespace quadrille
