// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collectives of one set of ranks. Backends are twins behind this interface: threads of one process
// (the reference) and MPI processes. Each element of a sum is added in rank order whatever moves
// it, so every backend gives the same bits. Every call has a deadline: past it the culprit is named
// (flight recorder) and the call returns kTimeout on every rank that waited.
//
// All members call the same collectives in the same order; a difference is found and named.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quadrille/base/ids.h"
#include "quadrille/base/result.h"
#include "quadrille/device/device.h"
#include "quadrille/memory/pool.h"

namespace quadrille {

class Communicator;

/// Permission to communicate, with the place that a watchdog would name ("bucket 3 of step 17").
/// Opened by the communicator, alive for the calls that belong together.
class CollectiveScope {
 public:
  [[nodiscard]] std::string_view place() const { return place_; }

 private:
  friend class Communicator;
  explicit CollectiveScope(std::string_view place) : place_(place) {}
  std::string place_;
};

/// How the rows (of the outermost dimension) of an all-to-all's tensors are cut, in rank order.
struct RowSplits {
  std::vector<std::int64_t> send;     ///< Of the source: send[r] rows go to rank r.
  std::vector<std::int64_t> receive;  ///< Of the target: receive[r] rows come from rank r.

  /// Each rank of `size` has `rows` rows and gives everyone his shard of them.
  [[nodiscard]] static RowSplits even(std::int64_t rows, Rank rank, int size);
};

class Communicator {
 public:
  virtual ~Communicator() = default;
  [[nodiscard]] virtual Rank rank() const = 0;  ///< In this group.
  [[nodiscard]] virtual int size() const = 0;
  [[nodiscard]] CollectiveScope open(std::string_view place) const {
    return CollectiveScope(place);
  }

  /// Memory that this group's collectives move fastest: segments that the peers can reach, where
  /// the backend has them. Collective over the group (equal sizes); leased from `pool` and tagged
  /// like any.
  [[nodiscard]] virtual Result<Lease> lease(Pool& pool, Bytes bytes, MemoryTag tag,
                                            std::string_view what) = 0;

  // On device tensors, in order with `stream`. Sums are of F32 or BF16 (added in fp32, rounded once
  // as it is stored), all else of any type. Any memory is legal, lease()'s is fastest.
  // Errors: kTimeout, kUnavailable (a peer is lost), kAborted (stop at once), kInvalid (peers
  // differ in operation, count or place); the tensor is then unspecified.

  /// tensor = sum over ranks, on every rank. Cost: 2N(p-1)/p elements on the wire per rank.
  [[nodiscard]] virtual Result<void> all_reduce(CollectiveScope& scope, Stream& stream,
                                                const TensorView& tensor) = 0;
  // A rank's shard of a tensor is its shard_extent of the outermost dimension: rows of a matrix,
  // elements of a vector.

  /// Rank r's shard of `tensor` = the sum over ranks; the rest unspecified.
  [[nodiscard]] virtual Result<void> reduce_scatter(CollectiveScope& scope, Stream& stream,
                                                    const TensorView& tensor) = 0;
  /// Every rank's shard of `tensor` reaches every rank.
  [[nodiscard]] virtual Result<void> all_gather(CollectiveScope& scope, Stream& stream,
                                                const TensorView& tensor) = 0;
  [[nodiscard]] virtual Result<void> broadcast(CollectiveScope& scope, Stream& stream,
                                               const TensorView& tensor, Rank root) = 0;

  /// Row blocks of `source` by rank, to where each rank's `target` has its block for this rank:
  /// a transposition of blocks. Rows are alike in all tensors; source and target are apart.
  [[nodiscard]] virtual Result<void> all_to_all(CollectiveScope& scope, Stream& stream,
                                                const TensorView& source, const TensorView& target,
                                                const RowSplits& splits) = 0;

  // Between two ranks; the others take no part. A pair's messages, in one direction, are matched in
  // order and must agree in bytes. A rendezvous: each side returns when the receiver has the data,
  // so two ranks that send to each other first wait for ever (until the deadline names them).
  [[nodiscard]] virtual Result<void> send(CollectiveScope& scope, Stream& stream,
                                          const TensorView& tensor, Rank target) = 0;
  [[nodiscard]] virtual Result<void> recv(CollectiveScope& scope, Stream& stream,
                                          const TensorView& tensor, Rank source) = 0;

  // On host values: control traffic, small.
  [[nodiscard]] virtual Result<void> barrier(CollectiveScope& scope) = 0;
  /// Every rank's bytes, by rank; lengths may differ.
  [[nodiscard]] virtual Result<std::vector<std::string>> gather_bytes(CollectiveScope& scope,
                                                                      std::string_view mine) = 0;
  /// Element-wise sum in rank order, in place, equal lengths.
  [[nodiscard]] Result<void> sum(CollectiveScope& scope, std::span<double> values);
};

}  // namespace quadrille
