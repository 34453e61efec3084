// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launcher/profile.h"

#include <cstdio>

#include "launcher/terminal.h"
#include "quadrille/base/file.h"
#include "quadrille/base/json.h"
#include "quadrille/bench/roofs.h"

namespace quadrille::launcher {

Result<void> show_profile(const RunPaths& paths, int ranks) {
  std::vector<StepsProfile> profiles;
  std::vector<RankTrace> traces;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = paths.rank_profile(Rank{rank});
    QD_ASSIGN_OR_RETURN(const Json json, read_json_file(path));
    const Json* profile = json.find("profile");
    const Json* trace = json.find("trace");
    if (profile == nullptr || trace == nullptr) {
      return fail(Code::kCorrupt, path + " holds no profile or no trace");
    }
    QD_ASSIGN_OR_RETURN(StepsProfile mine, steps_profile_from(*profile));
    profiles.push_back(std::move(mine));
    QD_ASSIGN_OR_RETURN(RankTrace spans, rank_trace_from(*trace));
    traces.push_back(std::move(spans));
  }
  const StepsProfile all = merge(profiles);
  QD_RETURN_IF_ERROR(write_file_atomically(paths.trace(), chrome_trace(traces)));
  Roofs roofs;
  if (all.steps > 0) {
    QD_ASSIGN_OR_RETURN(roofs, measure_roofs(all));
  }
  QD_RETURN_IF_ERROR(
      write_file_atomically(paths.profile(), write_json(profile_json(all, roofs), 2) + "\n"));
  for (int rank = 0; rank < ranks; ++rank) {
    std::remove(paths.rank_profile(Rank{rank}).c_str());
  }
  print_line("");
  print(profile_table(all, roofs));
  print_line("In " + paths.profile() + "; open " + paths.trace() + " with ui.perfetto.dev");
  return {};
}

}  // namespace quadrille::launcher
