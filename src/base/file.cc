// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "base/unique_descriptor.h"

namespace quadrille {
namespace {

using internal::UniqueDescriptor;

std::string folder_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

std::string quoted(std::string_view doing, const std::string& path) {
  return std::string(doing) + " \"" + path + "\"";
}

Result<void> write_and_sync(const std::string& path, std::string_view content) {
  const UniqueDescriptor file(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (!file) return fail(errno_error(quoted("cannot create", path), errno));
  while (!content.empty()) {
    const ssize_t count = ::write(file.get(), content.data(), content.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error(quoted("cannot write", path), errno));
    content.remove_prefix(static_cast<std::size_t>(count));
  }
  if (fsync(file.get()) != 0) return fail(errno_error(quoted("cannot flush", path), errno));
  return {};
}

}  // namespace

Result<void> write_file_atomically(const std::string& path, std::string_view content) {
  // A thread writes one file at a time, so process and thread make the neighbour's name unique.
  const std::string neighbour =
      path + ".tmp-" + std::to_string(getpid()) + "-" + std::to_string(gettid());
  Result<void> done = write_and_sync(neighbour, content);
  if (done) done = rename_durably(neighbour, path);
  if (!done) ::unlink(neighbour.c_str());
  return done;
}

Result<std::string> read_text_file(const std::string& path) {
  const UniqueDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return fail(errno_error(quoted("cannot open", path), errno));
  std::string text;
  std::array<char, 1 << 16> block;
  for (;;) {
    const ssize_t count = ::read(file.get(), block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error(quoted("cannot read", path), errno));
    if (count == 0) return text;
    text.append(block.data(), static_cast<std::size_t>(count));
  }
}

Result<void> make_folders(const std::string& path) {
  std::error_code code;
  std::filesystem::create_directories(path, code);
  if (!code && !std::filesystem::is_directory(path, code)) {
    return fail(Code::kInvalid, "\"" + path + "\" exists and is not a folder");
  }
  if (code) return fail(errno_error(quoted("cannot create folder", path), code.value()));
  return {};
}

Result<void> sync_folder(const std::string& path) {
  const UniqueDescriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail(errno_error(quoted("cannot open folder", path), errno));
  // Some network file systems cannot flush a folder and say EINVAL; there is nothing more to do
  // there.
  if (fsync(folder.get()) != 0 && errno != EINVAL) {
    return fail(errno_error(quoted("cannot flush folder", path), errno));
  }
  return {};
}

Result<void> rename_durably(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) {
    return fail(errno_error(quoted("cannot rename \"" + from + "\" to", to), errno));
  }
  return sync_folder(folder_of(to));
}

Result<void> remove_tree(const std::string& path) {
  std::error_code code;
  std::filesystem::remove_all(path, code);
  if (code) return fail(errno_error(quoted("cannot remove", path), code.value()));
  return {};
}

bool path_exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

Result<std::vector<std::string>> list_folder(const std::string& path) {
  std::error_code code;
  std::filesystem::directory_iterator entry(path, code);
  std::vector<std::string> names;
  for (const std::filesystem::directory_iterator end; !code && entry != end;
       entry.increment(code)) {
    names.push_back(entry->path().filename().string());
  }
  if (code) return fail(errno_error(quoted("cannot list", path), code.value()));
  std::sort(names.begin(), names.end());
  return names;
}

Result<Bytes> free_space(const std::string& path) {
  struct statvfs status {};
  if (statvfs(path.c_str(), &status) != 0) {
    return fail(errno_error(quoted("cannot ask for the free space of", path), errno));
  }
  return Bytes(static_cast<std::int64_t>(status.f_bavail)) *
         static_cast<std::int64_t>(status.f_frsize);
}

}  // namespace quadrille
