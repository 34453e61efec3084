// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Files read and written by explicit calls instead of through a mapping: a disk that fails in the
// middle of a checkpoint is then an error, and not a signal that kills the run.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille::internal {

/// Bytes that go through one read or write call; also the unit of checksumming.
inline constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();
  [[nodiscard]] int get() const { return value_; }

 private:
  int value_;
};

class ReadFile {
 public:
  /// Errors: kNotFound, kInvalid when it is no plain file.
  [[nodiscard]] static Result<ReadFile> open(const std::string& path);
  [[nodiscard]] Bytes size() const { return size_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] int descriptor() const { return descriptor_.get(); }
  /// Fills `out` from `offset`. Errors: kCorrupt when the file ends before.
  [[nodiscard]] Result<void> read_at(Bytes offset, std::span<std::byte> out) const;

 private:
  ReadFile(Descriptor descriptor, std::string path, Bytes size)
      : descriptor_(std::move(descriptor)), path_(std::move(path)), size_(size) {}
  Descriptor descriptor_;
  std::string path_;
  Bytes size_;
};

class WriteFile {
 public:
  /// Creates the file or empties it.
  [[nodiscard]] static Result<WriteFile> create(const std::string& path);
  /// Errors: kExhausted when the disk is full.
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  /// Brings all of it to the disk.
  [[nodiscard]] Result<void> sync();

 private:
  WriteFile(Descriptor descriptor, std::string path)
      : descriptor_(std::move(descriptor)), path_(std::move(path)) {}
  Descriptor descriptor_;
  std::string path_;
};

}  // namespace quadrille::internal
