// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "support/tiny_run.h"

#include <omp.h>

#include <stdlib.h>  // mkdtemp

#include <array>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>

#include "quadrille/base/random.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/plan/plan.h"
#include "support/guarded_device.h"

namespace quadrille::test {

TemporaryFolder::TemporaryFolder() {
  std::string name = (std::filesystem::temp_directory_path() / "quadrille-test-XXXXXX").string();
  QD_CHECK(::mkdtemp(name.data()) != nullptr);
  path_ = name;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string small_text(std::size_t bytes, std::uint64_t seed) {
  constexpr std::array<const char*, 8> kWords{"and",  "the", "light", "was",
                                              "good", "day", "on",    "earth"};
  const RandomStream random(seed, RandomPurpose::kTest, 0);
  std::string text;
  for (std::uint64_t i = 0; text.size() < bytes; ++i) {
    text += kWords[random.bits(i) % kWords.size()];
    text += i % 7 == 6 ? ".\n" : " ";
  }
  text.resize(bytes);
  return text;
}

JobSpec tiny_job(const std::string& folder) {
  const std::string file = folder + "/text.txt";
  std::ofstream(file) << small_text(6000);
  JobSpec job;
  job.name = "tiny";
  job.model = {.layers = 2, .hidden = 24, .heads = 3, .ffn = 96, .vocab = 256, .context = 16};
  job.data.train = {file};
  job.data.validation_fraction = 0.1;
  job.training.sequence = 16;
  job.training.global_batch = 12;
  job.training.micro_batch = 1;
  job.training.steps = 6;
  job.training.warmup_steps = 2;
  job.training.learning_rate = 3e-3;
  job.training.evaluate_every = 3;
  job.training.evaluate_batches = 1;
  job.communication.bucket = 8_KiB;  // several buckets even here
  return job;
}

JobSpec tiny_llama_job(const std::string& folder) {
  JobSpec job = tiny_job(folder);
  job.model.family = ModelFamily::kLlama;
  job.model.heads = 4;
  job.model.kv_heads = 2;
  job.model.head_dimension = 10;
  job.model.ffn = 40;
  job.model.tie_embeddings = false;
  job.model.bias = false;
  return job;
}

Result<TrainingOutcome> run_tiny(const JobSpec& job, const TinyRunOptions& options) {
  MachineFacts machine;
  machine.cores = 2;
  machine.processor = "test";
  QD_ASSIGN_OR_RETURN(const Plan plan, make_plan(job, machine));
  QD_RETURN_IF_ERROR(make_folders(options.run_directory));
  QD_ASSIGN_OR_RETURN(EventLog events, EventLog::open(options.run_directory + "/events.jsonl"));
  Logger log = Logger::nowhere();
  std::mutex mutex;
  std::optional<TrainingOutcome> outcome;
  WorldOptions world_options;
  world_options.timeout = Seconds(30);
  world_options.stop = options.stop;
  const RankBody body = [&](World& world) -> Result<void> {
    QD_ASSIGN_OR_RETURN(const HostTopology host, read_host_topology());
    QD_RETURN_IF_ERROR(bind_this_thread(share_of_host(host, world.rank(), world.size())));
    if (options.threads > 0) omp_set_num_threads(options.threads);
    const std::unique_ptr<Device> device =
        options.guarded ? ::quadrille::testing::make_guarded_device() : make_host_device();
    QD_ASSIGN_OR_RETURN(const TrainingOutcome mine,
                        train(world, {.plan = &plan,
                                      .run_directory = options.run_directory,
                                      .resume = options.resume,
                                      .device = device.get(),
                                      .events = &events,
                                      .log = &log,
                                      .stop = options.stop}));
    const std::lock_guard lock(mutex);
    if (world.rank() == Rank{0}) outcome = mine;
    return {};
  };
  QD_RETURN_IF_ERROR(run_threads(plan.ranks(), world_options, body));
  QD_CHECK(outcome.has_value());
  return *outcome;
}

std::vector<double> losses_of(const std::string& run_directory) {
  const auto records = read_metrics(run_directory + "/metrics.jsonl");
  QD_CHECK_MSG(records.has_value(), run_directory);
  std::vector<double> losses;
  for (const StepRecord& record : *records) losses.push_back(record.loss);
  return losses;
}

}  // namespace quadrille::test
