// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Named memory that several processes of a host map (a file in /dev/shm). Its pages exist from
// creation on, so a full /dev/shm is an error here and not a SIGBUS later; they lie on the
// creator's NUMA node. Whoever maps it also holds a shared lock on it: memory whose lock is free
// belongs to no living process, however its makers died, and may be removed.

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/result.h"
#include "quadrille/base/units.h"

namespace quadrille {

class SharedMemory {
 public:
  /// Zero-filled. `name` has letters, digits, '.', '_' and '-'. Errors: kInvalid for another name
  /// or no bytes, kUnavailable where the name is taken, kExhausted where /dev/shm has too little
  /// space.
  [[nodiscard]] static Result<SharedMemory> create(const std::string& name, Bytes bytes);
  /// Errors: kNotFound, also while its maker is still at work.
  [[nodiscard]] static Result<SharedMemory> open(const std::string& name);
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();  ///< Unmaps; the name stays until unlink().

  [[nodiscard]] std::span<std::byte> bytes() const { return bytes_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Takes the name away; those who map it keep it.
  void unlink();

 private:
  SharedMemory() = default;
  void release();
  int descriptor_ = -1;
  std::span<std::byte> bytes_;
  std::string name_;
};

/// Names in /dev/shm that start with `prefix`, sorted.
[[nodiscard]] std::vector<std::string> list_shared_memory(std::string_view prefix);

/// Removes the memory if no living process maps it; says whether it did. Other users' is left
/// alone.
[[nodiscard]] bool remove_if_unused(const std::string& name);

}  // namespace quadrille
