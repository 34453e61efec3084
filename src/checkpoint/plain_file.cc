// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/plain_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace quadrille::internal {
namespace {

std::string doing(const char* what, const std::string& path) {
  return std::string(what) + " \"" + path + "\"";
}

}  // namespace

Descriptor::Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(value_, other.value_);
  return *this;
}

Descriptor::~Descriptor() {
  if (value_ >= 0) ::close(value_);
}

Result<ReadFile> ReadFile::open(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its writer.
  Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (descriptor.get() < 0) return fail(errno_error(doing("cannot open", path), errno));
  struct stat status {};
  if (::fstat(descriptor.get(), &status) != 0) {
    return fail(errno_error(doing("cannot inspect", path), errno));
  }
  if (!S_ISREG(status.st_mode)) return fail(Code::kInvalid, "\"" + path + "\" is no plain file");
  return ReadFile(std::move(descriptor), path, Bytes(status.st_size));
}

Result<void> ReadFile::read_at(Bytes offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_.get(), out.data(), out.size(), offset.count());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error(doing("cannot read", path_), errno));
    if (count == 0) {
      return fail(Code::kCorrupt, "\"" + path_ + "\" ends at byte " +
                                      std::to_string(offset.count()) + ", before its data does");
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += Bytes(count);
  }
  return {};
}

Result<WriteFile> WriteFile::create(const std::string& path) {
  Descriptor descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  if (descriptor.get() < 0) return fail(errno_error(doing("cannot create", path), errno));
  return WriteFile(std::move(descriptor), path);
}

Result<void> WriteFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const std::size_t piece = std::min(bytes.size(), kPieceBytes);
    const ssize_t count = ::write(descriptor_.get(), bytes.data(), piece);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(errno_error(doing("cannot write", path_), errno));
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
  return {};
}

Result<void> WriteFile::sync() {
  if (::fsync(descriptor_.get()) != 0) {
    return fail(errno_error(doing("cannot flush", path_), errno));
  }
  return {};
}

}  // namespace quadrille::internal
