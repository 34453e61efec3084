// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the rank threads of one process share: who has failed or returned, and the memory in which
// groups meet.

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "comm/direct_mover.h"
#include "comm/group.h"
#include "comm/meeting.h"
#include "quadrille/base/result.h"

namespace quadrille::internal {

class ThreadHub final : public Peers {
 public:
  ThreadHub(int ranks, const WorldOptions& options)
      : options_(options), returned_(static_cast<std::size_t>(ranks)) {}

  [[nodiscard]] const WorldOptions& options() const { return options_; }
  [[nodiscard]] int ranks() const { return static_cast<int>(returned_.size()); }
  /// The one place to meet of a rank set, made by whoever asks first.
  [[nodiscard]] void* meeting(const std::vector<Rank>& members);

  /// A rank's body has returned: with an error it ends the waits of all others.
  void set_returned(Rank rank, const Result<void>& result);

  std::optional<Error> lost(const Awaited& awaited) override;
  bool may_vanish() const override { return false; }

 private:
  /// Memory aligned for a meeting.
  struct Place {
    explicit Place(int ranks);
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;
    ~Place();
    void* memory;
  };

  WorldOptions options_;
  std::atomic<bool> any_returned_{false};
  std::mutex mutex_;  ///< Guards all below.
  std::vector<char> returned_;
  std::optional<Error> failure_;  ///< Of the first rank that failed, as its peers see it.
  std::map<std::vector<Rank>, Place> meetings_;
};

/// Threads reach all memory of their process.
class ThreadReach final : public Reach {
 public:
  Location locate(const void* memory, Bytes) const override {
    return Location{0, reinterpret_cast<std::uintptr_t>(memory)};
  }
  void* address(int, const Location& location) const override {
    return reinterpret_cast<void*>(location.offset);
  }
  Result<Lease> lease(Pool& pool, const LeaseRequest& request, const Exchange&) override {
    return pool.lease(request.bytes, request.tag, request.what);
  }
};

}  // namespace quadrille::internal
