// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_mover.h"

#include <algorithm>
#include <cstring>

#include "comm/direct_mover.h"
#include "quadrille/base/check.h"
#include "quadrille/kernels/collective.h"

namespace quadrille::internal {
namespace {

template <std::size_t N>
void put_text(std::string_view text, std::array<char, N>& target) {
  target.fill('\0');
  std::copy_n(text.begin(), std::min(text.size(), N - 1), target.begin());
}

std::span<std::byte> bytes_of(const TensorView& view) {
  return {static_cast<std::byte*>(view.address()), static_cast<std::size_t>(view.bytes().count())};
}

}  // namespace

std::vector<int> MpiMover::others() const {
  std::vector<int> ranks;
  for (int step = 1; step < size(); ++step) ranks.push_back((group_.me + step) % size());
  return ranks;
}

Result<void> MpiMover::meet(const Call& call, std::int64_t payload) {
  if (link_.broken()) return fail(*link_.broken());
  Header& mine = headers_[static_cast<std::size_t>(group_.me)];
  mine = Header{call.sequence, call.bytes, payload, call.root, {}, {}};
  put_text(call.operation, mine.operation);
  put_text(call.place, mine.place);
  Transfers transfers = link_.transfers();
  for (const int r : others()) {
    const std::span<Header> theirs(&headers_[static_cast<std::size_t>(r)], 1);
    transfers.receive(std::as_writable_bytes(theirs), member(r), header_tag_);
  }
  for (const int r : others()) {
    const std::span<const Header> one(&mine, 1);
    transfers.send(std::as_bytes(one), member(r), header_tag_);
  }
  Watch watch(group_, call);
  QD_RETURN_IF_ERROR(link_.wait(transfers, watch));
  return compare(call);
}

Result<void> MpiMover::compare(const Call& call) const {
  std::vector<PostedCall> calls;
  for (const Header& header : headers_) {
    QD_CHECK(header.sequence == call.sequence);
    PostedCall posted;
    posted.assign(Call{header.operation.data(), header.bytes, header.place.data(),
                       static_cast<int>(header.root), header.sequence});
    calls.push_back(std::move(posted));
  }
  if (auto difference = find_difference(calls, group_.members)) {
    return fail(*std::move(difference));
  }
  return {};
}

TensorView MpiMover::piece(const TensorView& tensor, int shard, std::int64_t round) const {
  const TensorView whole = shard_of(tensor, shard, size());
  const std::int64_t most = link_.options().message.count() / element_bytes(tensor.dtype());
  const std::int64_t first = std::min(round * most, whole.elements());
  return whole.flat(first, std::min(most, whole.elements() - first));
}

std::int64_t MpiMover::rounds(const TensorView& tensor) const {
  const std::int64_t most = link_.options().message.count() / element_bytes(tensor.dtype());
  const std::int64_t longest = shard_of(tensor, 0, size()).elements();  // the remainder goes first
  return (longest + most - 1) / most;
}

Result<void> MpiMover::scatter_sums(const Call& call, Stream& stream, const TensorView& tensor) {
  const auto ranks = static_cast<std::size_t>(size());
  const auto me = static_cast<std::size_t>(group_.me);
  std::vector<TensorView> sources(ranks);
  for (std::int64_t round = 0; round < rounds(tensor); ++round) {
    const TensorView target = piece(tensor, group_.me, round);
    QD_ASSIGN_OR_RETURN(std::byte * staging, link_.staging(target.bytes() * (size() - 1)));
    Transfers transfers = link_.transfers();
    for (std::size_t r = 0; r < ranks; ++r) {
      if (r == me) {
        sources[r] = target;
        continue;
      }
      sources[r] = TensorView(tensor.device(), staging, tensor.dtype(), target.shape());
      staging += target.bytes().count();
      if (target.empty()) continue;
      transfers.receive(bytes_of(sources[r]), member(static_cast<int>(r)), data_tag_);
    }
    for (const int r : others()) {
      const TensorView theirs = piece(tensor, r, round);
      if (theirs.empty()) continue;
      transfers.send(bytes_of(theirs), member(r), data_tag_);
    }
    Watch watch(group_, call);
    QD_RETURN_IF_ERROR(link_.wait(transfers, watch));
    if (target.empty()) continue;
    kernels::sum_into_one(stream, sources, group_.me);
    QD_RETURN_IF_ERROR(stream.synchronize());
  }
  return {};
}

Result<void> MpiMover::gather_shards(const Call& call, const TensorView& tensor) {
  for (std::int64_t round = 0; round < rounds(tensor); ++round) {
    Transfers transfers = link_.transfers();
    for (const int r : others()) {
      const TensorView theirs = piece(tensor, r, round);
      if (theirs.empty()) continue;
      transfers.receive(bytes_of(theirs), member(r), data_tag_);
    }
    const TensorView mine = piece(tensor, group_.me, round);
    for (const int r : others()) {
      if (mine.empty()) continue;
      transfers.send(bytes_of(mine), member(r), data_tag_);
    }
    Watch watch(group_, call);
    QD_RETURN_IF_ERROR(link_.wait(transfers, watch));
  }
  return {};
}

Result<void> MpiMover::barrier(const Call& call) { return meet(call, 0); }

Result<std::vector<std::string>> MpiMover::bytes(const Call& call, std::string_view mine) {
  QD_RETURN_IF_ERROR(meet(call, static_cast<std::int64_t>(mine.size())));
  const auto most = static_cast<std::size_t>(link_.options().message.count());
  const auto in_pieces = [&](std::string& text, auto&& move) {
    const std::span<std::byte> bytes = std::as_writable_bytes(std::span<char>(text));
    for (std::size_t first = 0; first < bytes.size(); first += most) {
      move(bytes.subspan(first, std::min(most, bytes.size() - first)));
    }
  };
  std::vector<std::string> all(static_cast<std::size_t>(size()));
  all[static_cast<std::size_t>(group_.me)] = mine;
  Transfers transfers = link_.transfers();
  for (const int r : others()) {
    std::string& theirs = all[static_cast<std::size_t>(r)];
    theirs.resize(static_cast<std::size_t>(headers_[static_cast<std::size_t>(r)].payload));
    in_pieces(theirs, [&](auto part) { transfers.receive(part, member(r), data_tag_); });
  }
  std::string& own = all[static_cast<std::size_t>(group_.me)];
  for (const int r : others()) {
    in_pieces(own, [&](auto part) { transfers.send(part, member(r), data_tag_); });
  }
  Watch watch(group_, call);
  QD_RETURN_IF_ERROR(link_.wait(transfers, watch));
  return all;
}

Result<void> MpiMover::all_reduce(const Call& call, Stream& stream, const TensorView& tensor) {
  QD_RETURN_IF_ERROR(meet(call, 0));
  const TensorView flat = tensor.flat();  // in even shards, whatever its rows
  QD_RETURN_IF_ERROR(scatter_sums(call, stream, flat));
  return gather_shards(call, flat);
}

Result<void> MpiMover::reduce_scatter(const Call& call, Stream& stream, const TensorView& tensor) {
  QD_RETURN_IF_ERROR(meet(call, 0));
  return scatter_sums(call, stream, tensor);
}

Result<void> MpiMover::all_gather(const Call& call, Stream&, const TensorView& tensor) {
  QD_RETURN_IF_ERROR(meet(call, 0));
  return gather_shards(call, tensor);
}

/// The root gives each rank its shard, then all gather: 2N(p-1)/p elements leave the root instead
/// of N(p-1).
Result<void> MpiMover::broadcast(const Call& call, Stream&, const TensorView& whole) {
  const TensorView tensor = whole.flat();
  QD_RETURN_IF_ERROR(meet(call, 0));
  for (std::int64_t round = 0; round < rounds(tensor); ++round) {
    Transfers transfers = link_.transfers();
    if (group_.me != call.root) {
      const TensorView mine = piece(tensor, group_.me, round);
      if (!mine.empty()) {
        transfers.receive(bytes_of(mine), member(call.root), data_tag_);
      }
    } else {
      for (const int r : others()) {
        const TensorView theirs = piece(tensor, r, round);
        if (theirs.empty()) continue;
        transfers.send(bytes_of(theirs), member(r), data_tag_);
      }
    }
    Watch watch(group_, call);
    QD_RETURN_IF_ERROR(link_.wait(transfers, watch));
  }
  return gather_shards(call, tensor);
}

}  // namespace quadrille::internal
