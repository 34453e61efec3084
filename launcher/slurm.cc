// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/slurm.h"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace quadrille::launcher {
namespace {

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

std::optional<int> number(const char* name) {
  const std::string_view text = variable(name);
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

}  // namespace

Result<std::optional<SlurmAllocation>> slurm_allocation() {
  const std::string_view job = variable("SLURM_JOB_ID");
  if (job.empty()) return std::nullopt;
  const int launchers = number("SLURM_STEP_NUM_TASKS").value_or(1);
  if (launchers > 1) {
    return fail(Code::kInvalid,
                fmt::format("srun has started {} launchers, and each would start all ranks; call "
                            "quadrille launch once, from salloc or a batch script: it calls srun",
                            launchers));
  }
  return SlurmAllocation{.job = std::string(job), .tasks = number("SLURM_NTASKS")};
}

}  // namespace quadrille::launcher
