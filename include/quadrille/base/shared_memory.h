// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Named memory that several processes of a host map (a file in /dev/shm). Its pages exist from
// creation on, so a full /dev/shm is an error here and not a SIGBUS later; they lie on the
// creator's NUMA node. From 2 MiB up they are huge where the host allows it, and mapped at once by
// whoever opens it, so that no touch faults. Whoever maps it also holds a shared lock on it: memory
// whose lock is free belongs to no living process, however its makers died, and may be removed.

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
  /// Where it is mapped. Loops that go through several segments at the same offsets want segments
  /// of different colors: some processors tell lines of the first-level cache apart by a hash of
  /// bits 12 to 27 of their addresses, and where those agree each access drives out the last (five
  /// times slower, from cache). Colors differ in these bits; any int from 0.
  static constexpr int kAnyColor = -1;

  /// Zero-filled. `name` has letters, digits, '.', '_' and '-'. Errors: kInvalid for another name
  /// or no bytes, kUnavailable where the name is taken, kExhausted where /dev/shm has too little
  /// space.
  [[nodiscard]] static Result<SharedMemory> create(const std::string& name, Bytes bytes,
                                                   int color = kAnyColor);
  /// Errors: kNotFound, also while its maker is still at work.
  [[nodiscard]] static Result<SharedMemory> open(const std::string& name, int color = kAnyColor);
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
