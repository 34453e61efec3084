// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folders.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <stdio.h>  // renameat2

#include <algorithm>
#include <cerrno>
#include <charconv>

#include "quadrille/base/file.h"

namespace quadrille::internal {
namespace {

constexpr std::string_view kPartial = ".partial-";
constexpr std::string_view kReplaced = ".replaced-";
constexpr std::string_view kRemoved = ".removed-";

/// What follows `prefix` where `name` begins with it.
std::optional<std::string_view> after(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return name.substr(prefix.size());
}

Result<void> clear_leftover(const std::string& directory, const std::string& name) {
  const std::string path = directory + "/" + name;
  const auto replaced = after(name, kReplaced);
  if (replaced && step_of(*replaced)) {
    const std::string successor = directory + "/" + std::string(*replaced);
    if (!path_exists(successor)) return rename_durably(path, successor);
    return remove_tree(path);
  }
  if (after(name, kPartial) || after(name, kRemoved)) return remove_tree(path);
  return {};
}

/// Swaps two folders in one step. False where the file system cannot.
Result<bool> exchange(const std::string& a, const std::string& b) {
  if (::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0) return true;
  if (errno == EINVAL || errno == ENOSYS || errno == ENOTSUP) return false;
  return fail(errno_error("cannot exchange \"" + a + "\" and \"" + b + "\"", errno));
}

Result<void> replace_folder(const std::string& directory, const std::string& partial,
                            const std::string& target) {
  QD_ASSIGN_OR_RETURN(const bool exchanged, exchange(partial, target));
  if (exchanged) {
    QD_RETURN_IF_ERROR(sync_folder(directory));
    return remove_tree(partial);
  }
  const std::string former =
      directory + "/" + std::string(kReplaced) + target.substr(directory.size() + 1);
  QD_RETURN_IF_ERROR(remove_tree(former));
  QD_RETURN_IF_ERROR(rename_durably(target, former));
  QD_RETURN_IF_ERROR(rename_durably(partial, target));
  return remove_tree(former);
}

}  // namespace

std::string step_folder_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

std::string partial_folder_name(std::int64_t step, std::int64_t attempt) {
  return fmt::format("{}{}-{}", kPartial, step_folder_name(step), attempt);
}

std::optional<std::int64_t> step_of(std::string_view name) {
  const auto digits = after(name, "step-");
  if (!digits) return std::nullopt;
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits->data(), digits->data() + digits->size(), step);
  if (error != std::errc() || step < 0 || step_folder_name(step) != name) return std::nullopt;
  return step;
}

Result<std::vector<StepFolder>> step_folders(const std::string& directory) {
  QD_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(directory));
  std::vector<StepFolder> folders;
  for (const std::string& name : names) {
    const auto replaced = after(name, kReplaced);
    const auto step = step_of(replaced ? *replaced : name);
    if (!step) continue;
    if (replaced && path_exists(directory + "/" + step_folder_name(*step))) continue;
    folders.push_back({*step, directory + "/" + name});
  }
  std::sort(folders.begin(), folders.end(),
            [](const StepFolder& a, const StepFolder& b) { return a.step < b.step; });
  return folders;
}

Result<void> clear_leftovers(const std::string& directory) {
  QD_ASSIGN_OR_RETURN(const std::vector<std::string> names, list_folder(directory));
  for (const std::string& name : names) QD_RETURN_IF_ERROR(clear_leftover(directory, name));
  return {};
}

Result<void> commit_folder(const std::string& directory, const std::string& partial,
                           std::int64_t step) {
  const std::string target = directory + "/" + step_folder_name(step);
  if (!path_exists(target)) return rename_durably(partial, target);
  return replace_folder(directory, partial, target);
}

Result<void> remove_step(const std::string& directory, const StepFolder& folder) {
  const std::string gone = directory + "/" + std::string(kRemoved) + step_folder_name(folder.step);
  QD_RETURN_IF_ERROR(remove_tree(gone));
  QD_RETURN_IF_ERROR(rename_durably(folder.path, gone));
  return remove_tree(gone);
}

}  // namespace quadrille::internal
