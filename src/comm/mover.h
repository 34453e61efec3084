// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// How a backend moves the data of one group's collectives. Called on groups of at least two, with a
// call that was counted and recorded. Tensors are on the host, and what the stream was doing to
// them is done.

#include <string>
#include <string_view>
#include <vector>

#include "comm/call.h"
#include "comm/group.h"
#include "quadrille/base/result.h"
#include "quadrille/comm/communicator.h"
#include "quadrille/device/device.h"
#include "quadrille/memory/pool.h"

namespace quadrille::internal {

/// What Communicator::lease() was asked for.
struct LeaseRequest {
  Bytes bytes;
  MemoryTag tag = MemoryTag::kWorkspace;
  std::string_view what;
};

/// One message as both of its ranks call it.
struct PairCall {
  std::string operation;  ///< Of the call, which views it.
  Call call;       ///< The same on both; its sequence counts the pair's messages in this direction.
  Group pair;      ///< The two of them.
  int source = 0;  ///< In the whole group, like the target.
  int target = 0;
};

class Mover {
 public:
  virtual ~Mover() = default;
  virtual Result<void> barrier(const Call& call) = 0;
  virtual Result<std::vector<std::string>> bytes(const Call& call, std::string_view mine) = 0;
  virtual Result<void> all_reduce(const Call& call, Stream& stream, const TensorView& tensor) = 0;
  virtual Result<void> reduce_scatter(const Call& call, Stream& stream,
                                      const TensorView& tensor) = 0;
  virtual Result<void> all_gather(const Call& call, Stream& stream, const TensorView& tensor) = 0;
  virtual Result<void> broadcast(const Call& call, Stream& stream, const TensorView& tensor) = 0;
  virtual Result<void> all_to_all(const Call& call, Stream& stream, const TensorView& source,
                                  const TensorView& target, const RowSplits& splits) = 0;
  virtual Result<void> send(const PairCall& call, Stream& stream, const TensorView& tensor) = 0;
  virtual Result<void> recv(const PairCall& call, Stream& stream, const TensorView& tensor) = 0;
  /// Memory of the pool's, unless the backend has some that it moves faster.
  virtual Result<Lease> lease(const Call& call, Pool& pool, const LeaseRequest& request) {
    QD_RETURN_IF_ERROR(barrier(call));
    return pool.lease(request.bytes, request.tag, request.what);
  }
};

}  // namespace quadrille::internal
