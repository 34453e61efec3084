// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/launch/bootstrap.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "quadrille/base/json.h"

namespace quadrille {
namespace {

Result<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  if (value != nullptr && *value != '\0') return std::string(value);
  return fail(Code::kInvalid,
              fmt::format("{} is not set: this program is started by `quadrille launch`", name));
}

Result<Plan> read_plan(const RunPaths& paths) {
  QD_ASSIGN_OR_RETURN(const Json json, read_json_file(paths.plan()));
  auto plan = plan_from(json);
  if (!plan) return fail(with_context(std::move(plan).error(), paths.plan()));
  return plan;
}

}  // namespace

Result<Bootstrap> bootstrap_from_environment(BootstrapOptions options) {
  if (!options.on_overdue) options.on_overdue = [] { ::_exit(1); };
  QD_ASSIGN_OR_RETURN(const std::string directory, variable(kRunDirectoryVariable));
  QD_ASSIGN_OR_RETURN(std::string run_id, variable(kRunIdVariable));
  QD_ASSIGN_OR_RETURN(std::string address, variable(kControlVariable));
  QD_ASSIGN_OR_RETURN(std::string token, variable(kTokenVariable));
  QD_ASSIGN_OR_RETURN(std::string backend, variable(kBackendVariable));
  QD_ASSIGN_OR_RETURN(std::string resume, variable(kResumeVariable));
  const char* profile = std::getenv(kProfileVariable);
  const bool profiles = profile != nullptr && *profile != '\0';
  RunPaths paths{directory};
  QD_ASSIGN_OR_RETURN(RankLock lock, RankLock::take(paths));
  QD_ASSIGN_OR_RETURN(Plan plan, read_plan(paths));
  QD_ASSIGN_OR_RETURN(auto control,
                      ControlClient::connect({.address = std::move(address),
                                              .token = std::move(token),
                                              .on_overdue = std::move(options.on_overdue)}));
  return Bootstrap{std::move(paths), std::move(run_id),  std::move(backend), std::move(resume),
                   std::move(plan),  std::move(control), profiles,           std::move(lock)};
}

}  // namespace quadrille
