// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/base/shared_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <memory>
#include <utility>

namespace quadrille {
namespace {

constexpr const char* kFolder = "/dev/shm";

std::string path_of(const std::string& name) { return std::string(kFolder) + "/" + name; }

bool is_name(std::string_view name) {
  if (name.empty() || name.size() > 200 || name.front() == '.') return false;
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '.' || c == '_' || c == '-';
  });
}

Result<struct stat> status_of(int descriptor, const std::string& name) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) {
    return fail(errno_error("cannot look at shared memory \"" + name + "\"", errno));
  }
  return status;
}

constexpr std::size_t kPage = 4096;
// Processors hash these low bits of an address to predict a way of the first-level cache.
constexpr std::size_t kHashedBytes = 256 << 20;

/// An address of free address space where `count` bytes of a color may be mapped; null for any.
void* place_of(std::size_t count, int color) {
  if (color == SharedMemory::kAnyColor) return nullptr;
  const std::size_t wanted = static_cast<std::size_t>(color) * kPage % kHashedBytes;
  void* const space = mmap(nullptr, count + kHashedBytes, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (space == MAP_FAILED) return nullptr;
  munmap(space, count + kHashedBytes);  // a hint suffices: what is mapped there meanwhile wins
  const auto first = reinterpret_cast<std::uintptr_t>(space);
  return reinterpret_cast<void*>(first +
                                 (wanted + kHashedBytes - first % kHashedBytes) % kHashedBytes);
}

Result<std::span<std::byte>> map(int descriptor, std::size_t count, const std::string& name,
                                 int color) {
  void* memory =
      mmap(place_of(count, color), count, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  if (memory == MAP_FAILED) {
    return fail(errno_error("cannot map shared memory \"" + name + "\"", errno));
  }
  return std::span(static_cast<std::byte*>(memory), count);
}

constexpr std::size_t kHugePage = 2 << 20;

/// Asks for huge pages, where the host allows them in shared memory, and for the pages to be there
/// at once: a first touch of each would cost a fault. An errno, EINVAL where the kernel is too old.
int populate(std::span<std::byte> memory) {
  madvise(memory.data(), memory.size(), MADV_HUGEPAGE);
  return madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0 ? 0 : errno;
}

/// Gives the file its size and its pages. Large memory is populated through a mapping, which alone
/// can have huge pages; an errno.
int reserve(int descriptor, std::size_t count, const std::string& name) {
  const auto size = static_cast<off_t>(count);
  if (count < kHugePage) return posix_fallocate(descriptor, 0, size);
  struct statvfs free {};
  if (fstatvfs(descriptor, &free) == 0 &&
      free.f_bavail < (count + free.f_bsize - 1) / free.f_bsize) {
    return ENOSPC;
  }
  if (ftruncate(descriptor, size) != 0) return errno;
  auto mapped = map(descriptor, count, name, SharedMemory::kAnyColor);
  if (!mapped) return ENOMEM;
  const int error = populate(*mapped);
  munmap(mapped->data(), mapped->size());
  if (error == EINVAL) return posix_fallocate(descriptor, 0, size);
  return error == EFAULT ? ENOSPC : error;
}

}  // namespace

Result<SharedMemory> SharedMemory::create(const std::string& name, Bytes bytes, int color) {
  if (!is_name(name)) return fail(Code::kInvalid, "\"" + name + "\" cannot name shared memory");
  if (bytes <= Bytes(0)) return fail(Code::kInvalid, "shared memory \"" + name + "\" of no bytes");
  SharedMemory memory;
  memory.name_ = name;
  memory.descriptor_ = ::open(path_of(name).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (memory.descriptor_ < 0 && errno == EEXIST) {
    return fail(Code::kUnavailable, "shared memory \"" + name + "\" exists already");
  }
  if (memory.descriptor_ < 0) {
    return fail(errno_error("cannot create shared memory \"" + name + "\"", errno));
  }
  flock(memory.descriptor_, LOCK_SH);
  QD_ASSIGN_OR_RETURN(const struct stat status, status_of(memory.descriptor_, name));
  if (status.st_nlink == 0) {
    return fail(Code::kUnavailable,
                "shared memory \"" + name + "\" was cleaned away while it was made");
  }
  const int error = reserve(memory.descriptor_, static_cast<std::size_t>(bytes.count()), name);
  if (error != 0) {
    memory.unlink();
    return fail(
        errno_error("cannot reserve " + to_text(bytes) + " of shared memory in " + kFolder, error));
  }
  auto mapped = map(memory.descriptor_, static_cast<std::size_t>(bytes.count()), name, color);
  if (!mapped) {
    memory.unlink();
    return fail(std::move(mapped).error());
  }
  memory.bytes_ = *mapped;
  if (memory.bytes_.size() >= kHugePage) static_cast<void>(populate(memory.bytes_));
  return memory;
}

Result<SharedMemory> SharedMemory::open(const std::string& name, int color) {
  SharedMemory memory;
  memory.name_ = name;
  if (is_name(name)) memory.descriptor_ = ::open(path_of(name).c_str(), O_RDWR | O_CLOEXEC);
  if (memory.descriptor_ < 0)
    return fail(Code::kNotFound, "there is no shared memory \"" + name + "\"");
  flock(memory.descriptor_, LOCK_SH);
  QD_ASSIGN_OR_RETURN(const struct stat status, status_of(memory.descriptor_, name));
  if (status.st_nlink == 0 || status.st_size == 0) {
    return fail(Code::kNotFound, "shared memory \"" + name + "\" is not complete");
  }
  QD_ASSIGN_OR_RETURN(memory.bytes_, map(memory.descriptor_,
                                         static_cast<std::size_t>(status.st_size), name, color));
  if (memory.bytes_.size() >= kHugePage) static_cast<void>(populate(memory.bytes_));
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : descriptor_(std::exchange(other.descriptor_, -1)),
      bytes_(std::exchange(other.bytes_, {})),
      name_(std::move(other.name_)) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  if (this == &other) return *this;
  release();
  descriptor_ = std::exchange(other.descriptor_, -1);
  bytes_ = std::exchange(other.bytes_, {});
  name_ = std::move(other.name_);
  return *this;
}

SharedMemory::~SharedMemory() { release(); }

void SharedMemory::release() {
  if (!bytes_.empty()) munmap(bytes_.data(), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void SharedMemory::unlink() { ::unlink(path_of(name_).c_str()); }

std::vector<std::string> list_shared_memory(std::string_view prefix) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(kFolder), closedir);
  if (folder == nullptr) return names;
  while (const dirent* entry = readdir(folder.get())) {
    const std::string_view name = entry->d_name;
    if (name.starts_with(prefix) && is_name(name)) names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

bool remove_if_unused(const std::string& name) {
  const int descriptor =
      is_name(name) ? ::open(path_of(name).c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
  if (descriptor < 0) return false;
  // With the lock held nobody can begin to use it; who opened it meanwhile finds it without a name.
  const bool removed =
      flock(descriptor, LOCK_EX | LOCK_NB) == 0 && ::unlink(path_of(name).c_str()) == 0;
  ::close(descriptor);
  return removed;
}

}  // namespace quadrille
