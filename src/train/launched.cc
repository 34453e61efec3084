// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/train/launched.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

#include "quadrille/base/file.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/launch/bootstrap.h"

namespace quadrille {
namespace {

/// The control channel's word, as the waits of the comm room ask for it.
class ChannelSignal : public StopSignal {
 public:
  explicit ChannelSignal(const ControlClient& client) : client_(client) {}
  [[nodiscard]] bool stop_requested() const override { return client_.stop_requested(); }
  [[nodiscard]] bool abort_requested() const override { return client_.abort_requested(); }

 private:
  const ControlClient& client_;
};

constexpr const char* kHowRanksMeet =
    "; MPI did not connect the ranks: under Slurm srun needs PMIx (`srun --mpi=list` must name "
    "pmix), and the program must be linked against the same Open MPI as mpirun";

/// What all ranks of this process share.
struct RankProcess {
  Bootstrap bootstrap;
  HostTopology topology;
  FlightTable flights;
  EventLog events;
  Logger log;  ///< Of the world's waits.
  const LaunchedBody& body;
  std::atomic<bool> has_started{false};  ///< A rank of this process is known to the launcher.
};

/// "step 17, last in all_reduce of bucket 3".
std::string place_of(const RankProcess& process, Rank rank) {
  std::string place = fmt::format("step {}", process.flights.step(rank));
  const auto last = process.flights.entries(rank, 1);
  if (!last.empty()) place += fmt::format(", last in {} at {}", last[0].operation, last[0].place);
  return place;
}

/// A world of another size than the plan's cannot train: most often each process is one of its own.
Result<void> check_size(const RankProcess& process, const World& world) {
  const int wanted = process.bootstrap.plan.ranks();
  if (world.size() == wanted) return {};
  std::string message =
      fmt::format("the plan is for {} ranks, but {} started", wanted, world.size());
  if (world.size() == 1) message += ": every process believes itself alone";
  return fail(Code::kUnavailable, message + kHowRanksMeet);
}

/// For the launcher, which asks for it when all ranks have ended.
Result<void> leave_profile(const Profiler& profiler, const std::string& path) {
  Json json = Json::object();
  json.set("profile", to_json(profiler.profile())).set("trace", to_json(profiler.trace()));
  return write_file_atomically(path, write_json(json) + "\n");
}

Result<TrainingOutcome> work(RankProcess& process, World& world, Logger& log) {
  QD_RETURN_IF_ERROR(check_size(process, world));
  const HostShare share =
      share_of_host(process.topology, world.local_rank(), world.ranks_on_host());
  QD_RETURN_IF_ERROR(bind_this_thread(share));
  log.info(fmt::format("rank {} of {} on {}, pid {}, {} threads{}", world.rank().value,
                       world.size(), world.host(), ::getpid(), share.threads,
                       share.oversubscribed ? ", more ranks than cores" : ""));
  process.flights.set_process(world.rank(), ::getpid());
  const auto resume = kResumePolicyText.value(process.bootstrap.resume);
  if (!resume) return fail(Code::kInvalid, "unknown resume policy " + process.bootstrap.resume);
  const std::unique_ptr<Device> device = make_host_device();
  const ChannelSignal stop(*process.bootstrap.control);
  Profiler profiler({.rank = world.rank(), .threads = share.threads});
  const bool profiles = process.bootstrap.profiles;
  auto outcome = process.body(world, {.plan = &process.bootstrap.plan,
                                      .run_directory = process.bootstrap.paths.directory,
                                      .resume = *resume,
                                      .device = device.get(),
                                      .events = &process.events,
                                      .log = &log,
                                      .recorder = &process.flights,
                                      .stop = &stop,
                                      .profiler = profiles ? &profiler : nullptr});
  if (outcome && profiles) {
    QD_RETURN_IF_ERROR(leave_profile(profiler, process.bootstrap.paths.rank_profile(world.rank())));
  }
  return outcome;
}

Result<void> run_rank(RankProcess& process, World& world) {
  ControlClient& control = *process.bootstrap.control;
  process.has_started = true;
  control.greet(world.rank());
  QD_ASSIGN_OR_RETURN(Logger log, Logger::to_file(process.bootstrap.paths.rank_log(world.rank())));
  const auto outcome = work(process, world, log);
  if (!outcome) {
    log.error(outcome.error().to_text());
    control.report({world.rank(), outcome.error(), place_of(process, world.rank())});
    return fail(outcome.error());
  }
  log.info(
      fmt::format("{} after step {}", outcome->stopped ? "stopped" : "done", outcome->steps_done));
  control.finish(world.rank(), outcome->stopped ? RankEnd::kStopped : RankEnd::kDone);
  process.flights.set_returned(world.rank());
  return {};
}

Result<void> run_ranks(RankProcess& process) {
  const ChannelSignal stop(*process.bootstrap.control);
  const WorldOptions options{
      .timeout = process.bootstrap.plan.job.communication.timeout,
      .recorder = &process.flights,
      .stop = &stop,
      .log = &process.log,
      .shared_memory = process.bootstrap.plan.job.communication.shared_memory,
      .run_id = process.bootstrap.run_id};
  const RankBody rank = [&process](World& world) { return run_rank(process, world); };
  if (process.bootstrap.backend != "mpi") {
    return run_threads(process.bootstrap.plan.ranks(), options, rank);
  }
  auto done = run_mpi(options, rank);
  if (done || process.has_started) return done;
  // It has no rank yet; the launcher must hear the cause all the same, from whoever is first.
  Error error = done.error();
  if (error.code == Code::kUnavailable) error.message += kHowRanksMeet;
  process.bootstrap.control->greet(Rank{0});
  process.bootstrap.control->report({Rank{0}, error, "joining the others"});
  return fail(std::move(error));
}

}  // namespace

Result<void> run_launched(const LaunchedBody& body) {
  QD_ASSIGN_OR_RETURN(Bootstrap bootstrap, bootstrap_from_environment());
  QD_ASSIGN_OR_RETURN(HostTopology topology, read_host_topology());
  QD_ASSIGN_OR_RETURN(FlightTable flights,
                      FlightTable::join(bootstrap.run_id, bootstrap.plan.ranks()));
  // On a host without the launcher nobody else clears up after runs that were killed.
  if (flights.is_own()) static_cast<void>(remove_stale_shared_memory());
  QD_ASSIGN_OR_RETURN(EventLog events, EventLog::open(bootstrap.paths.events()));
  QD_ASSIGN_OR_RETURN(Logger log, Logger::to_file(bootstrap.paths.logs() + "/communication.log"));
  RankProcess process{std::move(bootstrap), std::move(topology), std::move(flights),
                      std::move(events),    std::move(log),      body};
  auto done = run_ranks(process);
  if (process.flights.is_own()) process.flights.remove();
  return done;
}

}  // namespace quadrille
