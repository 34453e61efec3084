// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// A few steps of a job with everything that it computes kept.

#include <fmt/format.h>

#include "quadrille/base/file.h"
#include "quadrille/device/host_binding.h"
#include "train/executor.h"
#include "train/layout_comparison.h"
#include "train/start_weights.h"

namespace quadrille::internal {
namespace {

/// What all ranks of the run share.
struct TracedRun {
  const Plan& plan;
  std::int64_t steps;
  std::string folder;
  HostTopology topology;
  EventLog events;
  LayoutTrace trace;
};

Result<void> run_rank(TracedRun& run, World& world) {
  QD_RETURN_IF_ERROR(bind_this_thread(share_of_host(run.topology, world.rank(), world.size())));
  const std::unique_ptr<Device> device = make_host_device();
  Logger log = Logger::nowhere();
  const TrainerOptions options{.plan = &run.plan,
                               .run_directory = run.folder,
                               .device = device.get(),
                               .events = &run.events,
                               .log = &log};
  auto state = build_local(world, options);
  QD_RETURN_IF_ERROR(agree_on(world, state ? Result<void>() : Result<void>(fail(state.error()))));
  QD_RETURN_IF_ERROR(agree_on(world, build_shared(**state)));
  QD_RETURN_IF_ERROR(agree_on(world, start_anew(**state)));
  Executor executor(**state);
  RankTrace trace(run.trace, **state);
  executor.set_trace(trace);
  for (std::int64_t step = 1; step <= run.steps; ++step) {
    QD_RETURN_IF_ERROR(executor.train_step(step));
  }
  return {};
}

}  // namespace

Result<std::vector<TracedStep>> trace_layout(const JobSpec& job, std::int64_t steps,
                                             const std::string& folder) {
  QD_ASSIGN_OR_RETURN(HostTopology topology, read_host_topology());
  MachineFacts machine;
  machine.cores = static_cast<int>(topology.cores.size());
  QD_ASSIGN_OR_RETURN(const Plan plan, make_plan(job, machine));
  QD_RETURN_IF_ERROR(make_folders(folder));
  QD_ASSIGN_OR_RETURN(EventLog events, EventLog::open(folder + "/events.jsonl"));
  TracedRun run{plan, steps, folder, std::move(topology), std::move(events), {}};
  const RankBody body = [&run](World& world) { return run_rank(run, world); };
  QD_RETURN_IF_ERROR(run_threads(plan.ranks(), {.timeout = job.communication.timeout}, body));
  if (const auto& disagreement = run.trace.disagreement()) {
    return fail(Code::kInternal, *disagreement);
  }
  return run.trace.take();
}

}  // namespace quadrille::internal
