// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/config/device_library.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <vector>

namespace quadrille {
namespace {

constexpr double kTera = 1e12;
constexpr double kGiga = 1e9;

/// One line of a data sheet: GB, GB/s, Tflop/s.
struct Sheet {
  std::string_view name;
  std::int64_t memory_gb;
  double memory_gb_per_s;
  std::array<double, 6> peak_tera;  // fp32, tf32, fp16, bf16, fp8, fp4
  DeviceEfficiency efficiency;
  std::string_view source;
  std::vector<std::string> recalled = {};
};

constexpr std::string_view kAccelerators = "stas00/ml-engineering compute/accelerator/README.md";
constexpr std::string_view kConfigs = "cli99/llm-analysis gpu_configs; stas00/ml-engineering";

// In the order of DeviceEfficiency. Fitted to published runs, all but the last two: kinds of which
// no run was published take those of their nearest relative, with products at the largest rate
// measured (stas00/ml-engineering, e.g. MI300X 668 of 1307 Tflop/s).
const DeviceEfficiency kVolta{0.77, 0, 0, 0.3, 0.3, 0.898, 113, Seconds(5.1e-6), Seconds(8e-6)};
const DeviceEfficiency kAmpere{0.757, 0, 0, 0.75, 0.447, 0.92, 74, Seconds(8e-6), Seconds(26.1e-6)};
const DeviceEfficiency kHopper{0.724,           0.845,        0, 0.625, 0.247, 0.55, 112,
                               Seconds(3.4e-6), Seconds(8e-6)};
const DeviceEfficiency kHopperCapped{0.625,         0.738,        0, 0.4, 0.257, 0.55, 98.7,
                                     Seconds(3e-6), Seconds(8e-6)};
const DeviceEfficiency kBlackwell{0.454, 0.653, 0.612,         0.577,        0.25,
                                  0.92,  119,   Seconds(3e-6), Seconds(6e-6)};
const DeviceEfficiency kGraceBlackwell{0.54,  0.633, 0.637,         0.425,        0.25,
                                       0.642, 123,   Seconds(3e-6), Seconds(6e-6)};
const DeviceEfficiency kGraceBlackwellUltra{0.687, 0.715, 0.738,         0.75,         0.25,
                                            0.92,  120,   Seconds(3e-6), Seconds(6e-6)};
const DeviceEfficiency kAda{0.6, 0.5, 0, 0.5, 0.45, 0.8, 64, Seconds(4e-6), Seconds(10e-6)};
const DeviceEfficiency kInstinct{0.52, 0.5, 0.45,          0.4,           0.3,
                                 0.7,  120, Seconds(5e-6), Seconds(10e-6)};

std::vector<Sheet> sheets() {
  return {
      {"V100-SXM2-32GB", 32, 900, {15.7, 0, 125, 0, 0, 0}, kVolta, kConfigs, {"peak.fp32"}},
      {"A100-SXM4-40GB", 40, 1555, {19.5, 156, 312, 312, 0, 0}, kAmpere, kConfigs},
      {"A100-SXM4-80GB", 80, 2039, {19.5, 156, 312, 312, 0, 0}, kAmpere, kConfigs},
      {"A100-PCIe-80GB", 80, 1935, {19.5, 156, 312, 312, 0, 0}, kAmpere, kConfigs},
      {"H100-SXM5-80GB", 80, 3350, {67, 494.5, 989, 989, 1979, 0}, kHopper, kAccelerators},
      {"H100-SXM-96GB-500W",
       96,
       2400,
       {67, 494.5, 989, 989, 1979, 0},
       kHopperCapped,
       "pytorch/torchtitan benchmarks/llama3_h100_202412_torchtitan.md; peaks of the uncapped "
       "part"},
      {"H100-PCIe-80GB", 80, 2000, {51, 378, 756, 756, 1513, 0}, kHopper, kAccelerators},
      {"H200-SXM", 141, 4800, {67, 494.5, 989, 989, 1979, 0}, kHopper, kAccelerators},
      {"B200-SXM", 180, 8000, {80, 1125, 2250, 2250, 4500, 9000}, kBlackwell, kAccelerators},
      {"B300-SXM", 288, 8000, {80, 1125, 2250, 2250, 4500, 12600}, kBlackwell, kAccelerators},
      {"GB200", 186, 8000, {80, 1250, 2500, 2500, 5000, 10000}, kGraceBlackwell, kAccelerators},
      {"GB300",
       288,
       8000,
       {80, 1250, 2500, 2500, 5000, 15000},
       kGraceBlackwellUltra,
       kAccelerators,
       {"memory", "memory_bandwidth"}},
      {"L40S", 48, 864, {91.6, 183, 362, 362, 733, 0}, kAda, kAccelerators},
      {"RTX-4090",
       24,
       1008,
       {82.6, 82.6, 165.2, 165.2, 330.3, 0},
       kAda,
       "from memory",
       {"peak", "memory", "memory_bandwidth"}},
      {"MI250X-GCD",
       64,
       1640,
       {23.95, 0, 191.5, 191.5, 0, 0},
       kInstinct,
       "half of the package in stas00/ml-engineering: each of its two dies is a device"},
      {"MI300X", 192, 5300, {163.4, 653.7, 1307, 1307, 2610, 0}, kInstinct, kAccelerators},
      {"MI325X", 256, 6000, {163.4, 653.7, 1300, 1300, 2610, 0}, kInstinct, kAccelerators},
      {"MI355X", 288, 8000, {157.3, 0, 2500, 2500, 5000, 10100}, kInstinct, kAccelerators},
  };
}

std::vector<DeviceSpec> devices_of(const std::vector<Sheet>& lines) {
  std::vector<DeviceSpec> devices;
  for (const Sheet& line : lines) {
    DeviceSpec device{.name = std::string(line.name),
                      .memory = Bytes(line.memory_gb << 30),
                      .memory_bandwidth = line.memory_gb_per_s * kGiga,
                      .efficiency = line.efficiency,
                      .source = std::string(line.source),
                      .recalled = line.recalled};
    for (std::size_t i = 0; i < line.peak_tera.size(); ++i) {
      device.peak[i] = line.peak_tera[i] * kTera;
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

/// Letters and digits in lower case.
std::string folded(std::string_view text) {
  std::string kept;
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      kept += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    }
  }
  return kept;
}

/// How published tables write a device; the first row whose words all occur decides.
struct Spelling {
  std::array<std::string_view, 2> words;
  std::string_view name;
};
constexpr std::array<Spelling, 21> kSpellings{{
    {{"v100", ""}, "V100-SXM2-32GB"},
    {{"a100pcie", ""}, "A100-PCIe-80GB"},
    {{"a100", "40gb"}, "A100-SXM4-40GB"},
    {{"a100", ""}, "A100-SXM4-80GB"},
    {{"a800", ""}, "A100-SXM4-80GB"},
    {{"h100", "500w"}, "H100-SXM-96GB-500W"},
    {{"h100", "96gb"}, "H100-SXM-96GB-500W"},
    {{"h100pcie", ""}, "H100-PCIe-80GB"},
    {{"h100", ""}, "H100-SXM5-80GB"},
    {{"h800", ""}, "H100-SXM5-80GB"},
    {{"h200", ""}, "H200-SXM"},
    {{"gb200", ""}, "GB200"},
    {{"gb300", ""}, "GB300"},
    {{"b200", ""}, "B200-SXM"},
    {{"b300", ""}, "B300-SXM"},
    {{"l40s", ""}, "L40S"},
    {{"4090", ""}, "RTX-4090"},
    {{"mi250", ""}, "MI250X-GCD"},
    {{"mi300", ""}, "MI300X"},
    {{"mi325", ""}, "MI325X"},
    {{"mi355", ""}, "MI355X"},
}};

}  // namespace

std::span<const DeviceSpec> device_library() {
  static const std::vector<DeviceSpec> devices = devices_of(sheets());
  return devices;
}

const DeviceSpec* find_known_device(std::string_view name) {
  const auto by_name = [](std::string_view exact) -> const DeviceSpec* {
    const auto devices = device_library();
    const auto found = std::find_if(devices.begin(), devices.end(),
                                    [&](const DeviceSpec& device) { return device.name == exact; });
    return found == devices.end() ? nullptr : &*found;
  };
  if (const DeviceSpec* exact = by_name(name); exact != nullptr) return exact;
  const std::string words = folded(name);
  for (const Spelling& spelling : kSpellings) {
    if (words.find(spelling.words[0]) == std::string::npos) continue;
    if (words.find(spelling.words[1]) == std::string::npos) continue;
    return by_name(spelling.name);
  }
  return nullptr;
}

}  // namespace quadrille
