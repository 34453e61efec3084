// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/launch/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>

#include "quadrille/base/file.h"
#include "quadrille/base/hash.h"

namespace quadrille {
namespace {

/// The value of the first line "key : value".
std::string field(const std::string& cpuinfo, std::string_view key) {
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::size_t name_end = line.find_last_not_of(" \t", colon == 0 ? 0 : colon - 1);
    if (line.substr(0, name_end + 1) != key) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

int number(const std::string& text) {
  std::istringstream stream(text);
  int value = -1;
  return stream >> value ? value : -1;
}

bool has_flag(const std::string& cpuinfo, std::string_view flag) {
  std::istringstream words(field(cpuinfo, "flags"));
  for (std::string word; words >> word;) {
    if (word == flag) return true;
  }
  return false;
}

/// Two vector units that multiply and add: 2 units x lanes x 2 operations.
struct Microarchitecture {
  std::string_view vendor;
  int family;
  int model_least;
  int model_most;
  int lanes;  ///< fp32 lanes that a unit really has (Zen 4 runs 512 bits in two passes).
  std::string_view name;
};

constexpr int kUnits = 2;
constexpr int kOperations = 2;

constexpr Microarchitecture kKnown[] = {
    {"AuthenticAMD", 23, 0x30, 0xff, 8, "Zen 2"},
    {"AuthenticAMD", 25, 0x00, 0xff, 8, "Zen 3 or Zen 4"},
    {"AuthenticAMD", 26, 0x00, 0x1f, 16, "Zen 5 (server)"},
    {"GenuineIntel", 6, 0x3c, 0x3d, 8, "Haswell or Broadwell"},
    {"GenuineIntel", 6, 0x3f, 0x3f, 8, "Haswell"},
    {"GenuineIntel", 6, 0x45, 0x47, 8, "Haswell or Broadwell"},
    {"GenuineIntel", 6, 0x4e, 0x4f, 8, "Skylake or Broadwell"},
    {"GenuineIntel", 6, 0x56, 0x56, 8, "Broadwell"},
    {"GenuineIntel", 6, 0x5e, 0x5e, 8, "Skylake"},
    {"GenuineIntel", 6, 0x6a, 0x6a, 16, "Ice Lake (server)"},
    {"GenuineIntel", 6, 0x6c, 0x6c, 16, "Ice Lake (server)"},
    {"GenuineIntel", 6, 0x8e, 0x8e, 8, "Kaby Lake"},
    {"GenuineIntel", 6, 0x8f, 0x8f, 16, "Sapphire Rapids"},
    {"GenuineIntel", 6, 0x9e, 0x9e, 8, "Coffee Lake"},
    {"GenuineIntel", 6, 0xa5, 0xa6, 8, "Comet Lake"},
    {"GenuineIntel", 6, 0xad, 0xae, 16, "Granite Rapids"},
    {"GenuineIntel", 6, 0xcf, 0xcf, 16, "Emerald Rapids"},
};

const Microarchitecture* find_known(const std::string& cpuinfo) {
  const std::string vendor = field(cpuinfo, "vendor_id");
  const int family = number(field(cpuinfo, "cpu family"));
  const int model = number(field(cpuinfo, "model"));
  for (const Microarchitecture& known : kKnown) {
    if (known.vendor != vendor || known.family != family) continue;
    if (model >= known.model_least && model <= known.model_most) return &known;
  }
  return nullptr;
}

std::string read_all_of(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Cycles are counted by a chain in which each multiplication waits for the one before.
double measured_hertz() {
  constexpr int kRounds = 16;
  constexpr std::int64_t kLoops = 40'000;
  constexpr std::int64_t kChain = 8;
  constexpr double kCyclesEach = 3;
  double best = 0;
  std::uint64_t value = 3;
  for (int round = 0; round < kRounds; ++round) {
    const Seconds start = monotonic_now();
    for (std::int64_t i = 0; i < kLoops; ++i) {
      asm volatile(
          "imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0\n\t"
          "imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0"
          : "+r"(value)
          :
          : "cc");
    }
    const double seconds = (monotonic_now() - start).count();
    best = std::max(best, static_cast<double>(kLoops * kChain) * kCyclesEach / seconds);
  }
  return best;
}

Bytes free_near(std::string path) {
  std::error_code error;
  std::filesystem::path place = std::filesystem::absolute(path.empty() ? "." : path, error);
  while (!std::filesystem::exists(place, error) && place.has_relative_path()) {
    place = place.parent_path();
  }
  const auto free = free_space(place.string());
  return free ? *free : Bytes(0);
}

}  // namespace

std::optional<CoreClock> read_core_clock() {
  const std::string highest = read_all_of("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq");
  const double kilohertz = number(highest);
  if (kilohertz > 0) return CoreClock{kilohertz * 1e3, "the highest clock that cpufreq names"};
  const double hertz = measured_hertz();
  // Outside of this no x86-64 processor has ever run: something disturbed the measurement.
  if (hertz < 0.5e9 || hertz > 8e9) return std::nullopt;
  return CoreClock{hertz, "the clock measured at the launch"};
}

CorePeak core_peak(const std::string& cpuinfo, const std::optional<CoreClock>& clock) {
  const Microarchitecture* known = find_known(cpuinfo);
  if (known == nullptr) return {std::nullopt, "unknown: this processor is not in the table"};
  const bool wide = known->lanes == 16;
  if (!has_flag(cpuinfo, "fma") || (wide && !has_flag(cpuinfo, "avx512f"))) {
    return {std::nullopt, "unknown: the processor's vector units are not enabled"};
  }
  if (!clock) return {std::nullopt, "unknown: the processor's clock cannot be read"};
  const int per_cycle = kUnits * known->lanes * kOperations;
  return {clock->hertz * per_cycle,
          fmt::format("{} FLOP a cycle and core ({}) x {:.2f} GHz ({})", per_cycle, known->name,
                      clock->hertz / 1e9, clock->source)};
}

MachineFacts read_machine_facts(const HostFacts& host) {
  MachineFacts facts;
  facts.cores = std::max(host.cores, 1);
  facts.memory = host.memory;
  facts.disk_free = free_near(host.run_directory);
  facts.processor = host.processor;
  facts.backend = host.backend;
  const CorePeak core = core_peak(read_all_of("/proc/cpuinfo"), read_core_clock());
  facts.peak_source = core.source;
  if (core.flops_per_second) {
    facts.peak_flops_per_second = *core.flops_per_second * facts.cores;
    facts.peak_source =
        fmt::format("{} core{} x {}", facts.cores, facts.cores == 1 ? "" : "s", core.source);
  }
  facts.fingerprint = hash_text(
      hash64(fmt::format("{}|{}|{}", facts.processor, facts.cores, facts.memory.count())));
  return facts;
}

}  // namespace quadrille
