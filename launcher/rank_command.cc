// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille rank: one rank process of a launch. With threads it hosts every rank, with MPI one.

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>

#include "launcher/commands.h"
#include "launcher/terminal.h"
#include "quadrille/comm/world.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/launch/bootstrap.h"
#include "quadrille/train/trainer.h"

namespace quadrille::launcher {
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

/// What all ranks of this process share.
struct RankProcess {
  Bootstrap bootstrap;
  HostTopology topology;
  FlightTable flights;
  EventLog events;
  std::atomic<bool> was_stopped{false};
};

/// "step 17, last in all_reduce of bucket 3".
std::string place_of(const RankProcess& process, Rank rank) {
  std::string place = fmt::format("step {}", process.flights.step(rank));
  const auto last = process.flights.entries(rank, 1);
  if (!last.empty()) place += fmt::format(", last in {} at {}", last[0].operation, last[0].place);
  return place;
}

Result<TrainingOutcome> train_here(RankProcess& process, World& world, Logger& log) {
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
  return train(world, {.plan = &process.bootstrap.plan,
                       .run_directory = process.bootstrap.paths.directory,
                       .resume = *resume,
                       .device = device.get(),
                       .events = &process.events,
                       .log = &log,
                       .recorder = &process.flights,
                       .stop = &stop});
}

Result<void> rank_body(RankProcess& process, World& world) {
  ControlClient& control = *process.bootstrap.control;
  control.greet(world.rank());
  QD_ASSIGN_OR_RETURN(Logger log, Logger::to_file(process.bootstrap.paths.rank_log(world.rank())));
  const auto outcome = train_here(process, world, log);
  if (!outcome) {
    log.error(outcome.error().to_text());
    control.report({world.rank(), outcome.error(), place_of(process, world.rank())});
    return fail(outcome.error());
  }
  if (outcome->stopped) process.was_stopped = true;
  log.info(
      fmt::format("{} after step {}", outcome->stopped ? "stopped" : "done", outcome->steps_done));
  control.finish(world.rank(), outcome->stopped ? RankEnd::kStopped : RankEnd::kDone);
  process.flights.set_returned(world.rank());
  return {};
}

Result<void> run_rank_process() {
  // Nothing can be saved once the launcher is gone or an abort has not been heeded.
  QD_ASSIGN_OR_RETURN(Bootstrap bootstrap,
                      bootstrap_from_environment({.on_overdue = [] { ::_exit(1); }}));
  QD_ASSIGN_OR_RETURN(HostTopology topology, read_host_topology());
  QD_ASSIGN_OR_RETURN(FlightTable flights, FlightTable::open(bootstrap.run_id));
  QD_ASSIGN_OR_RETURN(EventLog events, EventLog::open(bootstrap.paths.events()));
  QD_ASSIGN_OR_RETURN(Logger log, Logger::to_file(bootstrap.paths.logs() + "/communication.log"));
  RankProcess process{std::move(bootstrap), std::move(topology), std::move(flights),
                      std::move(events)};
  const ChannelSignal stop(*process.bootstrap.control);
  const WorldOptions options{.timeout = process.bootstrap.plan.job.communication.timeout,
                             .recorder = &process.flights,
                             .stop = &stop,
                             .log = &log};
  const RankBody body = [&process](World& world) { return rank_body(process, world); };
  if (process.bootstrap.backend == "mpi") return run_mpi(options, body);
  return run_threads(process.bootstrap.plan.ranks(), options, body);
}

}  // namespace

int rank_command() {
  const Result<void> done = run_rank_process();
  return done ? 0 : report_error(done.error());
}

}  // namespace quadrille::launcher
