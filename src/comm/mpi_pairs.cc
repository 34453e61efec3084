// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// What goes from one rank to one other by message: send, recv and the blocks of an all-to-all.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "comm/mpi_mover.h"
#include "comm/row_blocks.h"
#include "quadrille/kernels/collective.h"

namespace quadrille::internal {

template <class Part>
void MpiMover::in_messages(const TensorView& tensor, const Part& part) const {
  if (tensor.empty()) return;
  const std::span<std::byte> all(static_cast<std::byte*>(tensor.address()),
                                 static_cast<std::size_t>(tensor.bytes().count()));
  const auto most = static_cast<std::size_t>(link_.options().message.count());
  for (std::size_t first = 0; first < all.size(); first += most) {
    part(all.subspan(first, std::min(most, all.size() - first)));
  }
}

Result<void> MpiMover::shake_hands(const PairCall& call, int other, Bytes bytes) {
  if (link_.broken()) return fail(*link_.broken());
  const std::array<std::int64_t, 2> mine = {static_cast<std::int64_t>(call.call.sequence),
                                            bytes.count()};
  std::array<std::int64_t, 2> theirs{};
  Transfers transfers = link_.transfers();
  transfers.receive(std::as_writable_bytes(std::span(theirs)), member(other), pair_header_tag_);
  transfers.send(std::as_bytes(std::span(mine)), member(other), pair_header_tag_);
  Watch watch(call.pair, call.call);
  QD_RETURN_IF_ERROR(link_.wait(transfers, watch));
  if (theirs == mine) return {};
  const bool sending = group_.me == call.source;
  return fail(Code::kInvalid,
              fmt::format("{}: one sends {} bytes where the other expects {}", describe(call.call),
                          sending ? mine[1] : theirs[1], sending ? theirs[1] : mine[1]));
}

Result<void> MpiMover::send(const PairCall& call, Stream&, const TensorView& tensor) {
  QD_RETURN_IF_ERROR(shake_hands(call, call.target, tensor.bytes()));
  Transfers transfers = link_.transfers();
  in_messages(tensor, [&](std::span<std::byte> part) {
    transfers.send(part, member(call.target), pair_data_tag_);
  });
  Watch watch(call.pair, call.call);
  return link_.wait(transfers, watch);
}

Result<void> MpiMover::recv(const PairCall& call, Stream&, const TensorView& tensor) {
  QD_RETURN_IF_ERROR(shake_hands(call, call.source, tensor.bytes()));
  Transfers transfers = link_.transfers();
  in_messages(tensor, [&](std::span<std::byte> part) {
    transfers.receive(part, member(call.source), pair_data_tag_);
  });
  Watch watch(call.pair, call.call);
  return link_.wait(transfers, watch);
}

Result<void> MpiMover::all_to_all(const Call& call, Stream& stream, const TensorView& source,
                                  const TensorView& target, const RowSplits& splits) {
  QD_ASSIGN_OR_RETURN(const auto texts, bytes(call, packed(splits)));
  QD_RETURN_IF_ERROR(agree_on_splits(texts, group_.members));
  Transfers transfers = link_.transfers();
  for (const int r : others()) {
    in_messages(block_of(target, splits.receive, r),
                [&](std::span<std::byte> part) { transfers.receive(part, member(r), data_tag_); });
  }
  for (const int r : others()) {
    in_messages(block_of(source, splits.send, r),
                [&](std::span<std::byte> part) { transfers.send(part, member(r), data_tag_); });
  }
  kernels::copy_past_caches(stream, block_of(source, splits.send, group_.me),
                            block_of(target, splits.receive, group_.me));
  Watch watch(group_, call);
  QD_RETURN_IF_ERROR(link_.wait(transfers, watch));
  return stream.synchronize();
}

}  // namespace quadrille::internal
