// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// The thread backend's cases as MPI processes, and what happens when one of them misbehaves.
// Started by mpiexec as `mpi_battery CASE`; a rank whose case went as it must prints "as expected",
// which the test looks for: after a fault mpiexec itself reports a failed job.

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "comm/collective_cases.h"
#include "comm/mpi_reference.h"
#include "quadrille/base/shared_memory.h"
#include "quadrille/comm/world.h"
#include "quadrille/device/device.h"
#include "quadrille/memory/pool.h"

namespace quadrille::testing {
namespace {

struct Environment {
  std::optional<FlightTable> table;
  std::optional<Logger> log;
  std::string log_path;
  WorldOptions options;
};

/// One per job: all ranks are children of one mpiexec.
std::string run_id() { return fmt::format("mpi-battery-{}", getppid()); }

Result<FlightTable> share_table() {
  const char* rank = std::getenv("OMPI_COMM_WORLD_LOCAL_RANK");
  const char* size = std::getenv("OMPI_COMM_WORLD_LOCAL_SIZE");
  if (rank == nullptr || size == nullptr || std::string_view(rank) == "0") {
    return FlightTable::create(run_id(), size == nullptr ? 1 : std::atoi(size));
  }
  for (int attempt = 0; attempt < 500; ++attempt) {
    auto table = FlightTable::open(run_id());
    if (table) return table;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return FlightTable::open(run_id());
}

void sleep_seconds(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

Result<void> reduce(World& world, std::int64_t elements) {
  auto device = make_host_device();
  auto stream = device->make_stream();
  QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
  QD_ASSIGN_OR_RETURN(const Lease lease,
                      pool->lease(Bytes(elements * 4), MemoryTag::kGradient, "tensor"));
  CollectiveScope scope = world.whole().open("bucket 3");
  return world.whole().all_reduce(scope, *stream, lease.view(DType::kF32, Shape{elements}));
}

Result<void> reduce_for_ever(World& world) {
  auto device = make_host_device();
  auto stream = device->make_stream();
  QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
  QD_ASSIGN_OR_RETURN(const Lease lease,
                      world.whole().lease(*pool, 4_MiB, MemoryTag::kGradient, "tensor"));
  CollectiveScope scope = world.whole().open("bucket 3");
  const TensorView tensor = lease.view(DType::kF32, Shape{1 << 20});
  while (true) QD_RETURN_IF_ERROR(world.whole().all_reduce(scope, *stream, tensor));
}

Result<void> receive(World& world, Rank source) {
  auto device = make_host_device();
  auto stream = device->make_stream();
  QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
  QD_ASSIGN_OR_RETURN(const Lease lease, pool->lease(Bytes(400), MemoryTag::kGradient, "tensor"));
  CollectiveScope scope = world.whole().open("stage boundary");
  return world.whole().recv(scope, *stream, lease.view(DType::kF32, Shape{100}), source);
}

/// Leases that come and go leave no names behind, and one that cannot be had fails on every rank
/// and says what would help.
Result<void> leases(World& world, const WorldOptions& options) {
  auto device = make_host_device();
  auto pool = Pool::create({device.get(), Bytes(0), "test"}).value();
  for (int i = 0; i < 3; ++i) {
    QD_ASSIGN_OR_RETURN(const Lease lease,
                        world.whole().lease(*pool, 3_MiB, MemoryTag::kGradient, "buckets"));
  }
  CollectiveScope scope = world.whole().open("leases");
  QD_RETURN_IF_ERROR(world.whole().barrier(scope));
  const auto left = list_shared_memory("quadrille-" + options.run_id + "-");
  if (!left.empty()) return fail(Code::kCorrupt, left.front() + " is left behind");
  if (!options.shared_memory || world.size() == 1) return {};
  const auto huge = world.whole().lease(*pool, Bytes(std::int64_t{1} << 44), MemoryTag::kGradient,
                                        "huge buckets");
  if (!huge && huge.error().code == Code::kExhausted &&
      huge.error().message.find("huge buckets") != std::string::npos &&
      huge.error().message.find("communication.shared_memory") != std::string::npos) {
    return {};
  }
  return fail(Code::kCorrupt, huge ? "16 TiB were leased" : huge.error().message);
}

Result<void> collectives(World& world, const WorldOptions& options) {
  std::vector<Rank> everyone;
  for (int r = 0; r < world.size(); ++r) everyone.push_back(Rank{r});
  QD_RETURN_IF_ERROR(check_collectives(world.whole(), everyone));
  QD_RETURN_IF_ERROR(check_control(world));
  QD_RETURN_IF_ERROR(check_groups(world));
  QD_RETURN_IF_ERROR(check_against_mpi(world));
  QD_RETURN_IF_ERROR(leases(world, options));
  if (world.ranks_on_host() == world.size() && world.local_rank() == world.rank()) return {};
  return fail(Code::kCorrupt, "all ranks are on this host");
}

struct Case {
  std::string_view name;
  RankBody body;
  Code code;
  std::string_view message;  ///< In the error of every rank but `exempt`.
  int exempt = -1;
};

std::vector<Case> faults() {
  const int odd = 1;
  const auto is_odd = [](World& world) { return world.rank() == Rank{odd}; };
  return {
      {"early",
       [=](World& world) -> Result<void> {
         if (is_odd(world)) return {};
         return reduce(world, 100);
       },
       Code::kUnavailable, "rank 1", odd},
      {"operation",
       [=](World& world) -> Result<void> {
         if (!is_odd(world)) return reduce(world, 100);
         CollectiveScope scope = world.whole().open("bucket 3");
         return world.whole().barrier(scope);
       },
       Code::kInvalid, "rank 1 calls barrier at bucket 3 where the others call all_reduce"},
      {"count", [=](World& world) { return reduce(world, is_odd(world) ? 99 : 100); },
       Code::kInvalid, "rank 1 calls all_reduce of 396 bytes at bucket 3 where the others call"},
      {"failure",
       [=](World& world) -> Result<void> {
         if (is_odd(world)) return fail(Code::kExhausted, "no memory for layer 7");
         return reduce(world, 100);
       },
       Code::kAborted, "rank 1 failed: no memory for layer 7", odd},
      {"late",
       [=](World& world) {
         if (is_odd(world)) sleep_seconds(2.5);
         return reduce(world, 100);
       },
       Code::kTimeout, "rank 1", odd},
      {"kill",
       [=](World& world) {
         if (is_odd(world)) kill(getpid(), SIGKILL);
         return reduce(world, 100);
       },
       Code::kUnavailable, "has died", odd},
      {"kill_inside",
       [=](World& world) {
         std::thread killer([&world, is_odd] {
           if (!is_odd(world)) return;
           sleep_seconds(0.3);
           kill(getpid(), SIGKILL);
         });
         killer.detach();
         return reduce_for_ever(world);
       },
       Code::kUnavailable, "rank 1", odd},
      {"kill_sender",
       [=](World& world) {
         if (is_odd(world)) kill(getpid(), SIGKILL);
         return receive(world, Rank{odd});
       },
       Code::kUnavailable, "has died", odd},
      {"stop",
       [=](World& world) {
         if (is_odd(world)) kill(getpid(), SIGSTOP);
         return reduce(world, 100);
       },
       Code::kTimeout, "is stopped", odd},
  };
}

bool log_says(const Environment& environment, std::string_view text) {
  std::ifstream file(environment.log_path);
  std::stringstream all;
  all << file.rdbuf();
  return all.str().find(text) != std::string::npos;
}

/// 0 when this rank saw what it must see, within five seconds.
int run_fault(const Case& fault, Environment& environment) {
  int me = -1;
  Seconds started = monotonic_now();
  const auto result = run_mpi(environment.options, [&](World& world) -> Result<void> {
    me = world.rank().value;
    CollectiveScope scope = world.whole().open("start");
    QD_RETURN_IF_ERROR(world.whole().barrier(scope));
    if (me == 0) environment.table->remove();  // all have it mapped; no death leaves it behind
    started = monotonic_now();
    return fault.body(world);
  });
  const Seconds taken = monotonic_now() - started;
  if (me == 0) environment.table->remove();  // where the fault came before the first barrier ended
  bool right = me == fault.exempt;
  if (!right && !result) {
    // A rank may hear of the fault from a peer that found it first and has failed by it.
    right = (result.error().code == fault.code || result.error().code == Code::kAborted) &&
            taken < Seconds(5) && result.error().message.find(fault.message) != std::string::npos;
  }
  if (fault.name == "stop" && me == 0) {  // before anyone dies: mpiexec then kills this rank too
    right = right && log_says(environment, "is stopped");
    std::remove(environment.log_path.c_str());
  }
  if (me != fault.exempt || !right) {
    std::fprintf(stderr, "rank %d, %.1f s: %s: %s\n", me, taken.count(),
                 right ? "as expected" : "NOT AS EXPECTED",
                 result ? "no error" : result.error().to_text().c_str());
  }
  if (fault.name == "stop" && me == 0) {
    kill(environment.table->process(Rank{fault.exempt}), SIGKILL);
  }
  sleep_seconds(me == 0 ? 0 : 2);  // mpiexec ends all when the first one exits: rank 0 speaks
  return result ? 0 : 1;
}

int run(const std::string& name) {
  Environment environment;
  if (name == "alone") {
    const auto result = run_mpi({}, [](World&) -> Result<void> { return {}; });
    std::fprintf(stderr, "%s\n", result ? "no error" : result.error().to_text().c_str());
    return result ? 0 : 1;
  }
  auto table = share_table();
  if (!table) {
    std::fprintf(stderr, "%s\n", table.error().to_text().c_str());
    return 2;
  }
  environment.table = std::move(*table);
  environment.options.recorder = &*environment.table;
  environment.options.timeout = Seconds(30);
  environment.options.run_id = run_id();
  if (name == "collectives" || name == "messages" || name == "small_messages") {
    environment.options.shared_memory = name == "collectives";
    if (name == "small_messages") environment.options.message = Bytes(4096);
    const auto result = run_mpi(
        environment.options, [&](World& world) { return collectives(world, environment.options); });
    environment.table->remove();
    if (!result) std::fprintf(stderr, "%s\n", result.error().to_text().c_str());
    return result ? 0 : 1;
  }
  signal(SIGTERM, SIG_IGN);  // mpiexec sends it on the first death; this process has to see more
  if (name == "stop") {      // one file for all ranks, which rank 0 removes
    environment.log_path = fmt::format("/tmp/quadrille-mpi-battery-{}.log", getppid());
    if (auto log = Logger::to_file(environment.log_path)) environment.log = std::move(*log);
    if (environment.log) environment.options.log = &*environment.log;
  }
  if (name == "late") environment.options.timeout = Seconds(1);
  if (name == "stop") environment.options.timeout = Seconds(4);
  const auto cases = faults();
  const auto found = std::find_if(cases.begin(), cases.end(),
                                  [&](const Case& fault) { return fault.name == name; });
  if (found == cases.end()) return 2;
  return run_fault(*found, environment);
}

}  // namespace
}  // namespace quadrille::testing

int main(int count, char** arguments) {
  return quadrille::testing::run(count > 1 ? arguments[1] : "");
}
