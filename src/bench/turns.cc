// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/turns.h"

#include <optional>
#include <thread>

#include "quadrille/base/file.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/launch/machine.h"
#include "quadrille/train/trainer.h"

namespace quadrille::internal {
namespace {

/// A turn of others can be long.
constexpr Seconds kTurnTimeout(900);

/// A contestant's run: what its rank threads share.
struct Run {
  Contestant& contestant;
  int player;
  int rounds;
  Turnstile& turns;
  Plan plan;
  std::string directory;
  EventLog events;
  Logger log = Logger::nowhere();
};

Error stopped() { return {Code::kAborted, "another training of this benchmark failed", {}}; }

/// The core of each thread of all ranks: as many threads as asked for, over the cores there are.
HostShare share_of(const HostTopology& host, Rank rank, const Contestant& contestant, int ranks) {
  HostShare share = share_of_host(host, rank, ranks);
  const auto wanted = static_cast<std::size_t>(contestant.threads);
  if (share.cores.size() > wanted) share.cores.resize(wanted);
  share.threads = contestant.threads;
  return share;
}

class RankRun {
 public:
  RankRun(Run& run, World& world)
      : run_(run),
        world_(world),
        profiler_({.rank = world.rank(), .threads = run.contestant.threads}) {}

  Result<void> operator()() {
    if (!run_.turns.await(run_.player, 0)) return fail(stopped());
    QD_ASSIGN_OR_RETURN(const HostTopology host, read_host_topology());
    QD_RETURN_IF_ERROR(
        bind_this_thread(share_of(host, world_.rank(), run_.contestant, world_.size())));
    const std::unique_ptr<Device> device = make_host_device();
    begin_ = monotonic_now();
    const auto outcome = train(
        world_, {.plan = &run_.plan,
                 .run_directory = run_.directory,
                 .device = device.get(),
                 .events = &run_.events,
                 .log = &run_.log,
                 .profiler = &profiler_,
                 .saves = run_.contestant.saves,
                 .after_step = [this](const StepRecord& record) { return after_step(record); }});
    if (!outcome) return fail(outcome.error());
    if (is_first()) run_.contestant.profile = profiler_.profile();
    return {};
  }

 private:
  [[nodiscard]] bool is_first() const { return world_.rank() == Rank{0}; }

  Result<void> after_step(const StepRecord& record) {
    const Seconds end = monotonic_now();
    if (is_first()) {
      run_.contestant.seconds.push_back((end - begin_).count());
      run_.contestant.page_faults.push_back(static_cast<double>(page_faults() - faults_));
      run_.contestant.records.push_back(record);
      run_.contestant.between(round_);
      run_.turns.pass();
    }
    if (++round_ < run_.rounds && !run_.turns.await(run_.player, round_)) return fail(stopped());
    faults_ = page_faults();
    begin_ = monotonic_now();
    return {};
  }

  Run& run_;
  World& world_;
  Profiler profiler_;
  Seconds begin_;
  std::int64_t faults_ = 0;
  int round_ = 0;
};

Result<Run> make_run(Contestant& contestant, int player, int rounds, Turnstile& turns,
                     const std::string& folder) {
  contestant.job.training.steps = rounds;
  QD_ASSIGN_OR_RETURN(const HostTopology host, read_host_topology());
  const std::string directory = folder + "/training-" + std::to_string(player);
  QD_RETURN_IF_ERROR(make_folders(directory));
  const MachineFacts machine = read_machine_facts({.cores = static_cast<int>(host.cores.size()),
                                                   .memory = host.memory,
                                                   .processor = host.processor,
                                                   .run_directory = directory});
  QD_ASSIGN_OR_RETURN(Plan plan, make_plan(contestant.job, machine));
  QD_ASSIGN_OR_RETURN(EventLog events, EventLog::open(directory + "/events.jsonl"));
  return Run{contestant, player, rounds, turns, std::move(plan), directory, std::move(events)};
}

}  // namespace

bool Turnstile::await(int player, int round) {
  std::unique_lock lock(mutex_);
  const std::int64_t wanted = std::int64_t{round} * players_ + player;
  changed_.wait(lock, [&] { return is_closed_ || turn_ == wanted; });
  return !is_closed_;
}

void Turnstile::pass() {
  const std::lock_guard lock(mutex_);
  ++turn_;
  changed_.notify_all();
}

void Turnstile::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

Result<void> run_in_turns(std::vector<Contestant>& contestants, int rounds,
                          const std::string& folder,
                          const std::function<Result<void>(int round)>& last) {
  const int players = static_cast<int>(contestants.size());
  Turnstile turns(players + 1);
  std::vector<Run> runs;
  for (int i = 0; i < players; ++i) {
    QD_ASSIGN_OR_RETURN(
        Run run, make_run(contestants[static_cast<std::size_t>(i)], i, rounds, turns, folder));
    runs.push_back(std::move(run));
  }
  std::vector<Result<void>> results(runs.size());
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    threads.emplace_back([&, i] {
      results[i] = run_threads(runs[i].plan.ranks(), {.timeout = kTurnTimeout},
                               [&run = runs[i]](World& world) { return RankRun(run, world)(); });
      if (!results[i]) turns.close();
    });
  }
  Result<void> mine;
  for (int round = 0; mine && round < rounds && turns.await(players, round); ++round) {
    mine = last(round);
    turns.pass();
  }
  if (!mine) turns.close();
  for (std::thread& thread : threads) thread.join();
  QD_RETURN_IF_ERROR(mine);
  for (const Result<void>& result : results) {
    if (!result && result.error().code != Code::kAborted) return result;
  }
  for (const Result<void>& result : results) QD_RETURN_IF_ERROR(result);
  return {};
}

}  // namespace quadrille::internal
