// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/folder.h"

#include <stdlib.h>  // mkdtemp

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "quadrille/base/file.h"
#include "quadrille/base/random.h"
#include "quadrille/comm/world.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/launch/machine.h"
#include "quadrille/launch/supervisor.h"
#include "quadrille/plan/plan.h"

namespace quadrille::internal {

Result<BenchFolder> BenchFolder::make(const BenchSetting& setting) {
  BenchFolder folder;
  folder.path_ = setting.folder;
  if (!setting.folder.empty()) {
    QD_RETURN_IF_ERROR(make_folders(setting.folder));
    return folder;
  }
  std::string name = (std::filesystem::temp_directory_path() / "quadrille-bench-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    return fail(errno_error("no temporary folder for the benchmark", errno));
  }
  folder.path_ = std::move(name);
  folder.is_own_ = true;
  return folder;
}

BenchFolder::BenchFolder(BenchFolder&& other) noexcept
    : path_(std::move(other.path_)), is_own_(std::exchange(other.is_own_, false)) {}

BenchFolder::~BenchFolder() {
  if (is_own_) static_cast<void>(remove_tree(path_));
}

Result<void> write_tokens(const std::string& path, std::int64_t tokens, std::int64_t vocab) {
  // A shard of llm.c: 256 int32, then uint16 or uint32.
  const bool is_wide = vocab > (1 << 16);
  std::vector<std::uint32_t> header(256, 0);
  header[0] = is_wide ? 20240801 : 20240520;
  header[1] = is_wide ? 7 : 1;
  header[2] = static_cast<std::uint32_t>(tokens);
  const std::size_t width = is_wide ? 4 : 2;
  std::string file(header.size() * 4 + static_cast<std::size_t>(tokens) * width, '\0');
  std::memcpy(file.data(), header.data(), header.size() * 4);
  const RandomStream random(1, RandomPurpose::kTest, 0);
  char* out = file.data() + header.size() * 4;
  for (std::int64_t i = 0; i < tokens; ++i, out += width) {
    const auto id = static_cast<std::uint32_t>(random.bits(static_cast<std::uint64_t>(i)) %
                                               static_cast<std::uint64_t>(vocab));
    std::memcpy(out, &id, width);
  }
  return write_file_atomically(path, file);
}

JobSpec bench_job(const ModelSpec& model, StepTokens tokens, int ranks, const std::string& file) {
  JobSpec job;
  job.name = "bench";
  job.model = model;
  job.data.train = {file};
  job.training.sequence = tokens.tokens;
  job.training.global_batch = tokens.sequences;
  job.training.micro_batch = tokens.sequences / ranks;
  job.training.steps = 1;
  job.training.warmup_steps = 0;
  job.parallel.data = ranks;
  return job;
}

Result<void> launch_by_mpi(const JobSpec& job, const std::string& directory,
                           const std::vector<std::string>& command) {
  QD_ASSIGN_OR_RETURN(const HostTopology host, read_host_topology());
  const MachineFacts machine = read_machine_facts({.cores = static_cast<int>(host.cores.size()),
                                                   .memory = host.memory,
                                                   .processor = host.processor,
                                                   .run_directory = directory,
                                                   .backend = "mpi"});
  QD_ASSIGN_OR_RETURN(const Plan plan, make_plan(job, machine));
  QD_ASSIGN_OR_RETURN(const RunDirectory run, RunDirectory::open(directory));
  QD_RETURN_IF_ERROR(write_file_atomically(run.paths().plan(), write_json(to_json(plan))));
  QD_ASSIGN_OR_RETURN(const LaunchResult result, supervise({.paths = run.paths(),
                                                            .run_id = run.run_id(),
                                                            .ranks = plan.ranks(),
                                                            .backend = "mpi",
                                                            .command = command},
                                                           {}));
  if (result.error) return fail(*result.error);
  if (result.outcome != LaunchOutcome::kDone) {
    return fail(Code::kInternal, "the MPI ranks of the benchmark did not end well");
  }
  return {};
}

Result<std::vector<StepRecord>> train_by_mpi(const JobSpec& job, const std::string& directory,
                                             const std::string& program) {
  QD_RETURN_IF_ERROR(launch_by_mpi(job, directory, {program, "rank", "--unsaved"}));
  return read_metrics(RunPaths{directory}.metrics());
}

Result<int> threads_of(const BenchSetting& setting) {
  if (setting.threads > 0) return setting.threads;
  QD_ASSIGN_OR_RETURN(const HostTopology host, read_host_topology());
  return static_cast<int>(host.cores.size());
}

Result<void> bind_pool(int threads) {
  QD_ASSIGN_OR_RETURN(const HostTopology host, read_host_topology());
  HostShare share = share_of_host(host, Rank{0}, 1);
  share.threads = threads;
  return bind_this_thread(share);
}

}  // namespace quadrille::internal
