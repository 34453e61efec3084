// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "base/unique_descriptor.h"
#include "quadrille/base/file.h"

namespace quadrille {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const internal::UniqueDescriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!descriptor) return fail(errno_error("cannot open \"" + path + "\"", errno));
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0) {
    return fail(errno_error("cannot inspect \"" + path + "\"", errno));
  }
  if (!S_ISREG(status.st_mode)) {
    return fail(Code::kInvalid, "\"" + path + "\" is not a regular file");
  }
  MappedFile file;
  file.path_ = path;
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return file;
  void* address = mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor.get(), 0);
  if (address == MAP_FAILED) return fail(errno_error("cannot map \"" + path + "\"", errno));
  file.bytes_ = {static_cast<const std::byte*>(address), size};
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), path_(std::move(other.path_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(bytes_, other.bytes_);
  std::swap(path_, other.path_);
  return *this;
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace quadrille
