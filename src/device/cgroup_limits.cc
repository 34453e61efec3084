// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "device/cgroup_limits.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace quadrille::internal {
namespace {

/// The file's words; none where it cannot be read. These are kernel files of no declared length.
std::vector<std::string> words_of(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> words;
  for (std::string word; file >> word;) words.push_back(word);
  return words;
}

std::optional<double> number(const std::string& word) {
  double value = 0;
  std::istringstream text(word);
  if (!(text >> value) || !text.eof()) return std::nullopt;
  return value;
}

template <class T>
void lower(std::optional<T>& limit, T candidate) {
  limit = limit ? std::min(*limit, candidate) : candidate;
}

void apply_memory(CgroupLimits& limits, const std::string& file) {
  const auto words = words_of(file);
  if (words.empty()) return;
  const auto count = number(words[0]);
  // Version 1 says "no limit" with the largest multiple of a page below 2^63.
  if (count && *count > 0 && *count < 0x1p62) {
    lower(limits.memory, Bytes(static_cast<std::int64_t>(*count)));
  }
}

void apply_processors(CgroupLimits& limits, const std::vector<std::string>& quota_and_period) {
  if (quota_and_period.size() < 2) return;
  const auto quota = number(quota_and_period[0]);
  const auto period = number(quota_and_period[1]);
  if (quota && period && *quota > 0 && *period > 0) lower(limits.processors, *quota / *period);
}

void apply_v1_processors(CgroupLimits& limits, const std::string& folder) {
  std::vector<std::string> both = words_of(folder + "/cpu.cfs_quota_us");
  for (const std::string& word : words_of(folder + "/cpu.cfs_period_us")) both.push_back(word);
  apply_processors(limits, both);
}

/// `visit(folder)` for the group's folder and each ancestor's up to the hierarchy's root.
template <class Visit>
void for_each_ancestor(const std::string& hierarchy, std::string group, Visit visit) {
  while (!group.empty() && group != "/") {
    visit(hierarchy + group);
    group.resize(group.rfind('/') == std::string::npos ? 0 : group.rfind('/'));
  }
  visit(hierarchy);
}

bool lists(std::string_view controllers, std::string_view wanted) {
  while (!controllers.empty()) {
    const std::size_t comma = std::min(controllers.find(','), controllers.size());
    if (controllers.substr(0, comma) == wanted) return true;
    controllers.remove_prefix(std::min(comma + 1, controllers.size()));
  }
  return false;
}

}  // namespace

CgroupLimits read_cgroup_limits(const CgroupPlaces& places) {
  CgroupLimits limits;
  std::ifstream membership(places.membership);
  for (std::string line; std::getline(membership, line);) {
    // "<hierarchy>:<controllers>:<group>"; version 2 has no controllers.
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      for_each_ancestor(places.root, group, [&](const std::string& folder) {
        apply_processors(limits, words_of(folder + "/cpu.max"));
        apply_memory(limits, folder + "/memory.max");
      });
    }
    if (lists(controllers, "cpu")) {
      for_each_ancestor(places.root + "/cpu", group,
                        [&](const std::string& folder) { apply_v1_processors(limits, folder); });
    }
    if (lists(controllers, "memory")) {
      for_each_ancestor(places.root + "/memory", group, [&](const std::string& folder) {
        apply_memory(limits, folder + "/memory.limit_in_bytes");
      });
    }
  }
  return limits;
}

}  // namespace quadrille::internal
