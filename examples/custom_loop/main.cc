// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Trains inside a program of one's own: two ranks as threads of this process, a small GPT-2, the
// text file that is named. The job is made here as text, as a service might make it.
//   custom_loop TEXT_FILE RUN_DIRECTORY

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>

#include "quadrille/comm/world.h"
#include "quadrille/config/job_reader.h"
#include "quadrille/device/device.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/plan/plan.h"
#include "quadrille/train/trainer.h"

namespace {

using quadrille::Plan;
using quadrille::Result;

constexpr const char* kJob = R"({
  "name": "custom-loop",
  "model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "context": 32},
  "training": {"sequence": 32, "global_batch": 8, "steps": 20, "learning_rate": 0.003},
  "parallel": {"data": 2}
})";

/// The job above on this machine, with `text_file` as its data.
Result<Plan> plan_for(const std::string& text_file) {
  quadrille::JobText text{.file = "custom_loop", .text = kJob, .overrides = {}};
  text.overrides.push_back({"data.train", std::filesystem::absolute(text_file).string()});
  QD_ASSIGN_OR_RETURN(const auto job, quadrille::parse_job(text));
  QD_ASSIGN_OR_RETURN(const auto host, quadrille::read_host_topology());
  quadrille::MachineFacts machine;
  machine.cores = static_cast<int>(host.cores.size());
  machine.memory = host.memory;
  machine.processor = host.processor;
  return quadrille::make_plan(job, machine);
}

/// Trains as planned; the loss of the last step.
Result<double> train_in(const std::string& run_directory, const Plan& plan) {
  double last_loss = 0;
  const auto body = [&](quadrille::World& world) -> Result<void> {
    // What each rank owns: its cores, a device, its records.
    QD_ASSIGN_OR_RETURN(const auto host, quadrille::read_host_topology());
    const auto share = quadrille::share_of_host(host, world.local_rank(), world.ranks_on_host());
    QD_RETURN_IF_ERROR(quadrille::bind_this_thread(share));
    const auto device = quadrille::make_host_device();
    QD_ASSIGN_OR_RETURN(auto events, quadrille::EventLog::open(run_directory + "/events.jsonl"));
    auto log = quadrille::Logger::nowhere();

    quadrille::TrainerOptions options;
    options.plan = &plan;
    options.run_directory = run_directory;
    options.device = device.get();
    options.events = &events;
    options.log = &log;
    QD_ASSIGN_OR_RETURN(const auto outcome, quadrille::train(world, options));
    if (world.rank() == quadrille::Rank(0)) last_loss = outcome.last_loss;
    return {};
  };
  QD_RETURN_IF_ERROR(quadrille::run_threads(plan.ranks(), {}, body));
  return last_loss;
}

Result<double> run(const std::string& text_file, const std::string& run_directory) {
  QD_ASSIGN_OR_RETURN(const Plan plan, plan_for(text_file));
  std::error_code error;
  std::filesystem::create_directories(run_directory, error);
  if (error) return quadrille::fail(quadrille::Code::kInvalid, error.message());
  return train_in(run_directory, plan);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) {
    std::fprintf(stderr, "usage: custom_loop TEXT_FILE RUN_DIRECTORY\n");
    return 2;
  }
  const auto loss = run(arguments[1], arguments[2]);
  if (!loss) {
    std::fprintf(stderr, "%s\n", loss.error().to_text().c_str());
    return 1;
  }
  // A model that knows nothing gives every one of 256 bytes the same chance.
  std::printf("loss after 20 steps: %.3f (before training: %.3f)\n", *loss, std::log(256.0));
  return 0;
}
