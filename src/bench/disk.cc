// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>

#include "quadrille/base/units.h"

namespace quadrille::internal {
namespace {

constexpr std::size_t kPiece = std::size_t{4} << 20;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};
using Piece = std::unique_ptr<void, Free>;

Piece make_piece() {
  Piece piece(std::aligned_alloc(4096, kPiece));
  std::memset(piece.get(), 0x5A, kPiece);
  return piece;
}

class Descriptor {
 public:
  /// Past the page cache, or through it where that cannot be.
  Descriptor(const std::string& path, int flags)
      : value_(::open(path.c_str(), flags | O_DIRECT | O_CLOEXEC, 0644)) {
    if (value_ < 0 && errno == EINVAL) value_ = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
  }
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int value() const { return value_; }

 private:
  int value_;
};

}  // namespace

Result<double> write_sequentially(const std::string& path, std::int64_t bytes) {
  const Piece piece = make_piece();
  const Descriptor file(path, O_WRONLY | O_CREAT | O_TRUNC);
  if (file.value() < 0) return fail(errno_error("cannot write " + path, errno));
  const Seconds begin = monotonic_now();
  for (std::int64_t done = 0; done < bytes; done += static_cast<std::int64_t>(kPiece)) {
    if (::write(file.value(), piece.get(), kPiece) != static_cast<ssize_t>(kPiece)) {
      return fail(errno_error("cannot write " + path, errno));
    }
  }
  if (::fsync(file.value()) != 0) return fail(errno_error("cannot sync " + path, errno));
  return (monotonic_now() - begin).count();
}

Result<double> read_sequentially(const std::string& path) {
  const Piece piece = make_piece();
  const Descriptor file(path, O_RDONLY);
  if (file.value() < 0) return fail(errno_error("cannot read " + path, errno));
  static_cast<void>(::posix_fadvise(file.value(), 0, 0, POSIX_FADV_DONTNEED));
  const Seconds begin = monotonic_now();
  ssize_t count = 0;
  while ((count = ::read(file.value(), piece.get(), kPiece)) > 0) {
  }
  if (count < 0) return fail(errno_error("cannot read " + path, errno));
  return (monotonic_now() - begin).count();
}

void forget_pages(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, error)) {
    if (!entry.is_regular_file(error)) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    static_cast<void>(::fsync(file));
    static_cast<void>(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED));
    ::close(file);
  }
}

}  // namespace quadrille::internal
