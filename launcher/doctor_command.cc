// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
// quadrille doctor: can this machine, as it is installed, train?

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <functional>

#include "launcher/commands.h"
#include "launcher/terminal.h"
#include "quadrille/base/file.h"
#include "quadrille/base/text.h"
#include "quadrille/base/version.h"
#include "quadrille/comm/world.h"
#include "quadrille/device/host_binding.h"
#include "quadrille/kernels/matmul.h"
#include "quadrille/launch/machine.h"
#include "quadrille/memory/pool.h"
#include "quadrille/observe/flight_recorder.h"

namespace quadrille::launcher {
namespace {

enum class Verdict : std::uint8_t { kGood, kWarning, kBad };
inline constexpr EnumTable<Verdict, 3> kVerdictText{
    {{{Verdict::kGood, "ok"}, {Verdict::kWarning, "warning"}, {Verdict::kBad, "BAD"}}}};

struct Finding {
  std::string what;
  Verdict verdict = Verdict::kGood;
  std::string text;
};

Finding check_cores(const HostTopology& host) {
  return {"cores", Verdict::kGood,
          fmt::format("{} usable, {} NUMA node{}, {}", host.cores.size(), host.numa_nodes,
                      host.numa_nodes == 1 ? "" : "s", host.processor)};
}

std::string binding_text(const HostTopology& host, int ranks) {
  std::string text;
  for (int rank = 0; rank < ranks; ++rank) {
    const HostShare share = share_of_host(host, Rank{rank}, ranks);
    std::vector<std::string> cores;
    for (const int core : share.cores) cores.push_back(std::to_string(core));
    text += fmt::format(
        "{}{} thread{} on {}", rank == 0 ? "" : " | ", share.threads, share.threads == 1 ? "" : "s",
        cores.empty() ? "any core (a quota of processor time)" : "core " + join(cores, ","));
  }
  return text;
}

/// How ranks of one host are pinned: for one, and for two.
Finding check_binding(const HostTopology& host) {
  return {"binding", Verdict::kGood,
          fmt::format("1 rank: {}; 2 ranks: {}", binding_text(host, 1), binding_text(host, 2))};
}

Finding check_instructions(const HostTopology& host) {
  return {"instruction set", Verdict::kGood, host.instruction_set + " chosen for our own loops"};
}

Finding check_memory(const HostTopology& host) {
  const bool is_small = host.memory < 2_GiB;
  return {"memory", is_small ? Verdict::kWarning : Verdict::kGood,
          to_text(host.memory) + (is_small ? " is little: small models only" : " usable")};
}

Finding check_peak(const HostTopology& host) {
  const MachineFacts facts = read_machine_facts({.cores = static_cast<int>(host.cores.size()),
                                                 .memory = host.memory,
                                                 .processor = host.processor,
                                                 .run_directory = "."});
  if (!facts.peak_flops_per_second) return {"peak", Verdict::kWarning, "unknown: MFU will be null"};
  return {"peak", Verdict::kGood,
          fmt::format("{:.1f} GFLOP/s fp32 ({})", *facts.peak_flops_per_second / 1e9,
                      facts.peak_source)};
}

Finding check_shared_memory() {
  const auto free = free_space("/dev/shm");
  if (!free) return {"/dev/shm", Verdict::kBad, free.error().message};
  std::string text = to_text(*free) + " free";
  const bool is_small = *free < 16_MiB;
  if (is_small) text += " is too little for the ranks' flight recorder";
  const std::size_t leftovers = remove_stale_shared_memory().size();
  if (leftovers > 0) text += fmt::format("; removed {} that runs left behind", leftovers);
  return {"/dev/shm", is_small ? Verdict::kBad : Verdict::kGood, text};
}

Finding check_disk() {
  const auto free = free_space(".");
  if (!free) return {"disk", Verdict::kBad, free.error().message};
  return {"disk", *free < 1_GiB ? Verdict::kWarning : Verdict::kGood,
          to_text(*free) + " free here"};
}

// A product small enough to do in one's head, through the library that training uses.
Finding check_product() {
  const std::unique_ptr<Device> device = make_host_device();
  const std::unique_ptr<Stream> stream = device->make_stream();
  const auto pool = Pool::create({.device = device.get(), .name = "doctor"});
  const auto lease = (*pool)->lease(Bytes(256), MemoryTag::kWorkspace, "a product");
  if (!lease) return {"matrix product", Verdict::kBad, lease.error().message};
  const TensorView a = lease->view_at(Bytes(0), DType::kF32, {2, 2});
  const TensorView b = lease->view_at(Bytes(64), DType::kF32, {2, 2});
  const TensorView c = lease->view_at(Bytes(128), DType::kF32, {2, 2});
  write_all<float>(*stream, a, std::array{1.0F, 2.0F, 3.0F, 4.0F});
  write_all<float>(*stream, b, std::array{1.0F, 0.0F, 1.0F, 1.0F});
  kernels::matmul(*stream, {.a = a, .b = b, .c = c});
  const auto values = read_all<float>(*stream, c);
  const bool is_right = values && *values == std::vector<float>{3, 2, 7, 4};
  return {"matrix product", is_right ? Verdict::kGood : Verdict::kBad,
          std::string(kernels::matmul_library()) + (is_right ? "" : " gives a wrong result")};
}

// Two ranks as threads add up.
Finding check_threads() {
  const Result<void> done =
      run_threads(2, {.timeout = Seconds(10)}, [](World& world) -> Result<void> {
        std::array<double, 1> value{world.rank().value + 1.0};
        CollectiveScope scope = world.whole().open("doctor");
        QD_RETURN_IF_ERROR(world.whole().sum(scope, value));
        if (value[0] != 3.0) return fail(Code::kInternal, "1 + 2 is not 3 between two ranks");
        return {};
      });
  return {"threads backend", done ? Verdict::kGood : Verdict::kBad,
          done ? "two ranks agree" : done.error().message};
}

Finding check_mpi() {
  if (!mpi_is_built()) return {"mpi backend", Verdict::kWarning, "this build has none"};
  for (const char* folder : {"/usr/bin", "/usr/local/bin", "/usr/lib64/openmpi/bin"}) {
    const std::string path = std::string(folder) + "/mpirun";
    if (::access(path.c_str(), X_OK) == 0) return {"mpi backend", Verdict::kGood, path};
  }
  return {"mpi backend", Verdict::kWarning,
          "built, but no mpirun is installed (package openmpi-bin)"};
}

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  findings.push_back({"build", Verdict::kGood, version_text()});
  const auto host = read_host_topology();
  if (host) {
    for (const auto& check :
         {check_cores, check_binding, check_instructions, check_memory, check_peak}) {
      findings.push_back(check(*host));
    }
  } else {
    findings.push_back({"topology", Verdict::kBad, host.error().message});
  }
  for (const auto& check :
       {check_shared_memory, check_disk, check_product, check_threads, check_mpi}) {
    findings.push_back(check());
  }
  return findings;
}

}  // namespace

std::string version_text() {
  const BuildVersion& build = build_version();
  return fmt::format("quadrille {} (revision {}, {}, {}, {}{})", build.version, build.revision,
                     build.build_type, build.compiler, build.mpi.empty() ? "no MPI" : build.mpi,
                     build.sanitizers.empty() ? "" : ", sanitizers " + build.sanitizers);
}

int doctor_command(const DoctorOptions& options) {
  const std::vector<Finding> findings = examine();
  bool is_well = true;
  Json rows = Json::array();
  for (const Finding& finding : findings) {
    is_well = is_well && finding.verdict != Verdict::kBad;
    const std::string_view verdict = kVerdictText.text(finding.verdict);
    rows.push(
        Json::object().set("what", finding.what).set("verdict", verdict).set("text", finding.text));
    if (!options.json)
      print_line(fmt::format("{:<8} {:<16} {}", verdict, finding.what, finding.text));
  }
  if (options.json) {
    print_line(write_json(Json::object().set("well", is_well).set("findings", std::move(rows)), 2));
  } else {
    print_line(is_well ? "This machine can train."
                       : "Something is wrong: see the lines marked BAD.");
  }
  return is_well ? 0 : 1;
}

}  // namespace quadrille::launcher
