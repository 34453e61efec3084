// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "quadrille/base/check.h"
#include "quadrille/base/file.h"

namespace quadrille {

Result<AppendFile> AppendFile::open(const std::string& path) {
  AppendFile file;
  file.descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file.descriptor_ < 0) return fail(errno_error("cannot open \"" + path + "\"", errno));
  file.path_ = path;
  return file;
}

AppendFile::AppendFile(AppendFile&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)), path_(std::move(other.path_)) {}

AppendFile& AppendFile::operator=(AppendFile&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  std::swap(path_, other.path_);
  return *this;
}

AppendFile::~AppendFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Result<void> AppendFile::append_line(std::string_view text) {
  QD_CHECK(descriptor_ >= 0);
  std::string line(text);
  line += '\n';
  // One write carries the whole line; only a full disk or a signal cuts it short, and then the rest
  // follows or the error is told.
  for (std::size_t done = 0; done < line.size();) {
    const ssize_t count = ::write(descriptor_, line.data() + done, line.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error("cannot append to \"" + path_ + "\"", errno));
    done += static_cast<std::size_t>(count);
  }
  return {};
}

}  // namespace quadrille
