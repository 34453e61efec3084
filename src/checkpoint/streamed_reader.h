// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reads long stretches of files in order and past the page cache, at the disk's rate: while one
// half of a staging memory is looked at, a thread reads the next bytes into the other half. Where a
// file system cannot read past the cache, it is read through it.

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "checkpoint/plain_file.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille::internal {

/// Bytes [begin, begin + bytes) of an open file.
struct FileRun {
  const ReadFile* file = nullptr;
  Bytes begin;
  Bytes bytes;
};

/// Used by one thread.
class StreamedReader {
 public:
  /// Delivers the runs one after the other; files stay open meanwhile. Errors: kExhausted.
  [[nodiscard]] static Result<StreamedReader> create(std::vector<FileRun> runs);
  StreamedReader(StreamedReader&&) noexcept;
  StreamedReader& operator=(StreamedReader&&) noexcept;
  ~StreamedReader();

  /// The next bytes, one at least and `most` at most, valid until the next call. The caller knows
  /// when the runs are over. Errors: kCorrupt where a file ends before its run, and what reading
  /// failed with.
  [[nodiscard]] Result<std::span<const std::byte>> next(std::size_t most);

 private:
  struct State;
  explicit StreamedReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille::internal
