// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Every byte of a rank's tensors comes from a Pool as a Lease with a tag. The pool enforces its
// limit (the plan's bytes) and remembers the peak of each tag. A pool serves the one thread of its
// rank.

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "quadrille/base/enum_text.h"
#include "quadrille/base/result.h"
#include "quadrille/base/units.h"
#include "quadrille/device/device.h"

namespace quadrille {

enum class MemoryTag : std::uint8_t {
  kParameter,
  kGradient,
  kOptimizer,
  kActivation,
  kKvCache,
  kCommunication,
  kWorkspace,
};
inline constexpr std::size_t kMemoryTagCount = 7;
inline constexpr EnumTable<MemoryTag, kMemoryTagCount> kMemoryTagText{
    {{{MemoryTag::kParameter, "parameter"},
      {MemoryTag::kGradient, "gradient"},
      {MemoryTag::kOptimizer, "optimizer"},
      {MemoryTag::kActivation, "activation"},
      {MemoryTag::kKvCache, "kv_cache"},
      {MemoryTag::kCommunication, "communication"},
      {MemoryTag::kWorkspace, "workspace"}}}};

class Pool;

/// Memory that its device reaches but did not allocate, such as a segment shared between processes.
struct ForeignMemory {
  void* data = nullptr;
  Bytes bytes;
  std::function<void()> release;  ///< Called, then destroyed, when the lease ends.
};

/// Owns a piece of device memory until it goes out of scope; the pool must outlive it.
class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  [[nodiscard]] Bytes bytes() const { return memory_.bytes; }
  [[nodiscard]] Device* device() const;
  /// A view of the start of the lease; must fit.
  [[nodiscard]] TensorView view(DType dtype, Shape shape) const {
    return view_at(Bytes(0), dtype, shape);
  }
  [[nodiscard]] TensorView view_at(Bytes offset, DType dtype, Shape shape) const;

 private:
  friend class Pool;
  Lease(Pool* pool, ForeignMemory memory, MemoryTag tag)
      : pool_(pool), memory_(std::move(memory)), tag_(tag) {}
  void end();
  Pool* pool_ = nullptr;
  ForeignMemory memory_;
  MemoryTag tag_ = MemoryTag::kWorkspace;
};

struct PoolOptions {
  Device* device = nullptr;  ///< Outlives the pool.
  Bytes limit;               ///< 0: none.
  std::string name;          ///< For messages: "rank 1, host".
};

class Pool {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Pool>> create(PoolOptions options);
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;
  ~Pool();  ///< QD_CHECKs that every lease has been returned.

  /// Zero-filled. `what` names the tensor in errors.
  /// Errors: kExhausted, with what is leased by tag, what was asked for and the limit.
  [[nodiscard]] Result<Lease> lease(Bytes bytes, MemoryTag tag, std::string_view what);

  /// Counts memory from elsewhere like its own. Errors: kExhausted; the memory is then released.
  [[nodiscard]] Result<Lease> adopt(ForeignMemory memory, MemoryTag tag, std::string_view what);

  [[nodiscard]] Device& device() const { return *options_.device; }
  [[nodiscard]] Bytes leased() const { return leased_; }
  [[nodiscard]] Bytes leased(MemoryTag tag) const {
    return leased_by_tag_[static_cast<std::size_t>(tag)];
  }
  [[nodiscard]] Bytes peak() const { return peak_; }
  [[nodiscard]] Bytes peak(MemoryTag tag) const {
    return peak_by_tag_[static_cast<std::size_t>(tag)];
  }
  /// Leases made so far; constant over steps once a run is under way.
  [[nodiscard]] std::int64_t leases_made() const { return leases_made_; }

 private:
  friend class Lease;
  explicit Pool(PoolOptions options) : options_(std::move(options)) {}
  [[nodiscard]] Result<void> check_limit(Bytes bytes, MemoryTag tag, std::string_view what) const;
  [[nodiscard]] Lease count(ForeignMemory memory, MemoryTag tag);
  void give_back(Bytes bytes, MemoryTag tag);

  PoolOptions options_;
  Bytes leased_;
  Bytes peak_;
  std::array<Bytes, kMemoryTagCount> leased_by_tag_{};
  std::array<Bytes, kMemoryTagCount> peak_by_tag_{};
  std::int64_t leases_made_ = 0;
};

}  // namespace quadrille
