// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "launch/mpi_leftovers.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <ctime>
#include <fstream>

#include "launch/control_protocol.h"
#include "quadrille/base/file.h"

namespace quadrille::internal {
namespace {

constexpr std::time_t kYoungSeconds = 5;

bool is_old_and_ours(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  return status.st_uid == ::geteuid() && std::time(nullptr) - status.st_mtime > kYoungSeconds;
}

/// Takes out of `paths` what any process maps. Processes of others cannot be read, and cannot have
/// mapped a file that only we may open.
void keep_unmapped(std::vector<std::string>& paths) {
  const auto processes = list_folder("/proc");
  if (!processes) return paths.clear();
  for (const std::string& process : *processes) {
    if (paths.empty()) return;
    if (std::isdigit(static_cast<unsigned char>(process.front())) == 0) continue;
    std::ifstream maps("/proc/" + process + "/maps");
    for (std::string line; std::getline(maps, line);) {
      const auto maps_it = [&line](const std::string& path) {
        return line.find(path) != std::string::npos;
      };
      paths.erase(std::remove_if(paths.begin(), paths.end(), maps_it), paths.end());
    }
  }
}

}  // namespace

std::vector<std::string> remove_mpi_leftovers(const std::string& folder) {
  const auto names = list_folder(folder);
  if (!names) return {};
  const std::string start = "vader_segment." + host_name() + ".";
  std::vector<std::string> paths;
  for (const std::string& name : *names) {
    const std::string path = folder + "/" + name;
    if (name.compare(0, start.size(), start) == 0 && is_old_and_ours(path)) paths.push_back(path);
  }
  keep_unmapped(paths);
  for (const std::string& path : paths) ::unlink(path.c_str());
  return paths;
}

}  // namespace quadrille::internal
