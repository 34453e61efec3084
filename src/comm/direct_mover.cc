// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/direct_mover.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <utility>

#include "comm/row_blocks.h"
#include "quadrille/base/check.h"
#include "quadrille/kernels/collective.h"

namespace quadrille::internal {
namespace {

/// Like shard_extent in whole cache lines, so that no two ranks write to one.
Extent slice_extent(std::int64_t elements, int rank, int ranks) {
  constexpr std::int64_t kLine = 64 / sizeof(float);
  const Extent lines = shard_extent((elements + kLine - 1) / kLine, rank, ranks);
  const std::int64_t first = std::min(lines.first * kLine, elements);
  return Extent{first, std::min((lines.first + lines.length) * kLine, elements) - first};
}

Box* boxes_in(void* memory, int ranks) {
  auto* const after = static_cast<std::byte*>(memory) + Meeting::memory_bytes(ranks).count();
  return reinterpret_cast<Box*>(after);
}

}  // namespace

TensorView shard_of(const TensorView& tensor, int rank, int ranks) {
  const Extent extent = shard_elements(tensor, rank, ranks);
  return tensor.flat(extent.first, extent.length);
}

Extent shard_elements(const TensorView& tensor, int rank, int ranks) {
  if (tensor.shape().dimensions() == 0) return Extent{0, tensor.elements()};
  const std::int64_t rows = tensor.shape()[0];
  const std::int64_t row = rows == 0 ? 0 : tensor.elements() / rows;
  const Extent extent = shard_extent(rows, rank, ranks);
  return Extent{extent.first * row, extent.length * row};
}

Bytes DirectMover::memory_bytes(int ranks) {
  return Meeting::memory_bytes(ranks) +
         Bytes(static_cast<std::int64_t>(sizeof(Box))) * ranks * ranks;
}

void DirectMover::prepare(void* memory, int ranks) {
  Meeting::prepare(memory, ranks);
  Box* const boxes = boxes_in(memory, ranks);
  for (int i = 0; i < ranks * ranks; ++i) std::construct_at(boxes + i);
}

DirectMover::DirectMover(Group group, void* memory, Meeting& meeting, std::unique_ptr<Reach> reach,
                         std::unique_ptr<Mover> otherwise)
    : group_(std::move(group)),
      boxes_(boxes_in(memory, group_.size())),
      meeting_(meeting),
      reach_(std::move(reach)),
      otherwise_(std::move(otherwise)) {}

TensorView DirectMover::peer_view(int peer, const TensorView& mine) const {
  void* const address = reach_->address(peer, meeting_.post(peer).location);
  return TensorView(mine.device(), address, mine.dtype(), mine.shape());
}

std::vector<TensorView> DirectMover::peer_views(const TensorView& mine, Extent part) const {
  std::vector<TensorView> views;
  views.reserve(static_cast<std::size_t>(group_.size()));
  for (int r = 0; r < group_.size(); ++r) {
    views.push_back(peer_view(r, mine).flat(part.first, part.length));
  }
  return views;
}

Result<bool> DirectMover::meet(const Call& call, const TensorView& tensor) {
  QD_RETURN_IF_ERROR(meeting_.meet(call, reach_->locate(tensor.address(), tensor.bytes()), 0));
  for (int r = 0; r < group_.size(); ++r) {
    if (meeting_.post(r).location.region == Location::kNowhere) {
      QD_CHECK(otherwise_ != nullptr);
      return false;
    }
  }
  return true;
}

Result<void> DirectMover::leave(const Call& call, Stream& stream) {
  auto done = stream.synchronize();
  auto left = meeting_.leave(call);
  return done ? left : done;
}

Result<void> DirectMover::barrier(const Call& call) { return meeting_.meet(call, {}, 0); }

Result<std::vector<std::string>> DirectMover::bytes(const Call& call, std::string_view mine) {
  if (mine.size() <= Meeting::kInlineBytes) {
    std::copy(mine.begin(), mine.end(), meeting_.next_inline_bytes());
  }
  QD_RETURN_IF_ERROR(meeting_.meet(call, reach_->locate(mine.data(), Bytes(0)), mine.size()));
  std::vector<std::string> all;
  bool all_reached = true;
  for (int r = 0; r < group_.size(); ++r) {
    const Post& post = meeting_.post(r);
    const bool is_inline = post.bytes <= Meeting::kInlineBytes;
    all_reached = all_reached && (is_inline || post.location.region != Location::kNowhere);
    if (!all_reached) break;
    const char* from = is_inline ? meeting_.inline_bytes(r)
                                 : static_cast<char*>(reach_->address(r, post.location));
    all.emplace_back(from, post.bytes);
  }
  QD_RETURN_IF_ERROR(meeting_.leave(call));
  if (all_reached) return all;
  QD_CHECK(otherwise_ != nullptr);
  return otherwise_->bytes(call, mine);
}

Result<void> DirectMover::all_reduce(const Call& call, Stream& stream, const TensorView& tensor) {
  QD_ASSIGN_OR_RETURN(const bool reached, meet(call, tensor));
  if (!reached) return otherwise_->all_reduce(call, stream, tensor);
  const Extent slice = slice_extent(tensor.elements(), group_.me, group_.size());
  if (slice.length > 0) kernels::sum_into_all(stream, peer_views(tensor, slice));
  return leave(call, stream);
}

Result<void> DirectMover::reduce_scatter(const Call& call, Stream& stream,
                                         const TensorView& tensor) {
  QD_ASSIGN_OR_RETURN(const bool reached, meet(call, tensor));
  if (!reached) return otherwise_->reduce_scatter(call, stream, tensor);
  const Extent shard = shard_elements(tensor, group_.me, group_.size());
  if (shard.length > 0) kernels::sum_into_one(stream, peer_views(tensor, shard), group_.me);
  return leave(call, stream);
}

Result<void> DirectMover::all_gather(const Call& call, Stream& stream, const TensorView& tensor) {
  QD_ASSIGN_OR_RETURN(const bool reached, meet(call, tensor));
  if (!reached) return otherwise_->all_gather(call, stream, tensor);
  for (int step = 1; step < group_.size(); ++step) {  // not all from the same rank at once
    const int r = (group_.me + step) % group_.size();
    kernels::copy_past_caches(stream, shard_of(peer_view(r, tensor), r, group_.size()),
                              shard_of(tensor, r, group_.size()));
  }
  return leave(call, stream);
}

Result<void> DirectMover::broadcast(const Call& call, Stream& stream, const TensorView& tensor) {
  QD_ASSIGN_OR_RETURN(const bool reached, meet(call, tensor));
  if (!reached) return otherwise_->broadcast(call, stream, tensor);
  if (call.root != group_.me) {
    kernels::copy_past_caches(stream, peer_view(call.root, tensor), tensor.flat());
  }
  return leave(call, stream);
}

Result<void> DirectMover::all_to_all(const Call& call, Stream& stream, const TensorView& source,
                                     const TensorView& target, const RowSplits& splits) {
  QD_ASSIGN_OR_RETURN(const auto texts, bytes(call, packed(splits)));
  QD_ASSIGN_OR_RETURN(const auto all, agree_on_splits(texts, group_.members));
  QD_ASSIGN_OR_RETURN(const bool reached, meet(call, source));
  if (!reached) return otherwise_->all_to_all(call, stream, source, target, splits);
  for (int step = 0; step < group_.size(); ++step) {  // not all from the same rank at once
    const int r = (group_.me + step) % group_.size();
    const TensorView mine = block_of(target, splits.receive, r);
    if (mine.empty()) continue;
    const std::vector<std::int64_t>& rows = all[static_cast<std::size_t>(r)].send;
    const Shape shape =
        source.shape().with_extent(0, std::accumulate(rows.begin(), rows.end(), std::int64_t{0}));
    const TensorView theirs(source.device(), reach_->address(r, meeting_.post(r).location),
                            source.dtype(), shape);
    kernels::copy_past_caches(stream, block_of(theirs, rows, group_.me), mine);
  }
  return leave(call, stream);
}

Result<void> DirectMover::send(const PairCall& call, Stream& stream, const TensorView& tensor) {
  Mailbox mailbox(box(call), meeting_.peers(), call);
  const Location location =
      tensor.empty() ? Location{0, 0} : reach_->locate(tensor.address(), tensor.bytes());
  QD_ASSIGN_OR_RETURN(const auto outcome, mailbox.offer(location, tensor.bytes().count()));
  if (outcome == Mailbox::Outcome::kTaken) return {};
  QD_CHECK(otherwise_ != nullptr);
  return otherwise_->send(call, stream, tensor);
}

Result<void> DirectMover::recv(const PairCall& call, Stream& stream, const TensorView& tensor) {
  Mailbox mailbox(box(call), meeting_.peers(), call);
  QD_ASSIGN_OR_RETURN(const Location location, mailbox.take(tensor.bytes().count()));
  if (location.region == Location::kNowhere) {
    mailbox.ask_for_message();
    QD_CHECK(otherwise_ != nullptr);
    return otherwise_->recv(call, stream, tensor);
  }
  Result<void> done;
  if (!tensor.empty()) {
    const TensorView theirs(tensor.device(), reach_->address(call.source, location), tensor.dtype(),
                            tensor.shape());
    kernels::copy_past_caches(stream, theirs, tensor);
    done = stream.synchronize();
  }
  mailbox.done();
  return done;
}

Result<Lease> DirectMover::lease(const Call& call, Pool& pool, const LeaseRequest& request) {
  QD_RETURN_IF_ERROR(barrier(call));  // equal sizes on all
  return reach_->lease(pool, request, [&](std::string_view mine) { return bytes(call, mine); });
}

}  // namespace quadrille::internal
