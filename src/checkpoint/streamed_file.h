// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a large file front to back past the page cache, at the disk's rate: bytes are gathered in
// one half of the staging memory while a thread writes the other half. Going through the page cache
// took three times the processor's time, which training beside it wants. Where a file system cannot
// write past the cache, it is written through it.

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille::internal {

/// Used by one thread.
class StreamedFile {
 public:
  /// Creates the file or empties it. `staging` is a Staging's and stays alive; its contents are
  /// this file's until close().
  [[nodiscard]] static Result<StreamedFile> create(const std::string& path,
                                                   std::span<std::byte> staging);
  StreamedFile(StreamedFile&&) noexcept;
  StreamedFile& operator=(StreamedFile&&) noexcept;
  ~StreamedFile();  ///< Without close(), what is written is not to be relied on.

  /// Where the next bytes go, one at least: put them there and say how many. Waits for the disk.
  /// Errors: what an earlier write failed with; kExhausted when the disk is full.
  [[nodiscard]] Result<std::span<std::byte>> room();
  void filled(std::size_t count);
  /// Copies bytes that lie elsewhere.
  [[nodiscard]] Result<void> append(std::span<const std::byte> bytes);
  /// Writes the rest and brings all of it to the disk.
  [[nodiscard]] Result<void> close();

 private:
  struct State;
  explicit StreamedFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace quadrille::internal
