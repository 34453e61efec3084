// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Messages between processes: the way between hosts, and for memory that peers cannot reach. Each
// collective begins with every rank's header to every other: it is the
// barrier, and it shows a difference of calls before any data moves. Sums come by direct exchange:
// each rank receives its shard from all others, a message at a time, and adds in rank order, which
// a ring or tree could not. Cost: p - 1 messages a rank in each round; N(p-1)/p elements on the
// wire for a reduce-scatter or an all-gather.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/mover.h"
#include "comm/mpi_link.h"

namespace quadrille::internal {

class MpiMover final : public Mover {
 public:
  /// `number` of the group in the order of making, from 1: the same on all members.
  MpiMover(Group members, MpiLink& link, int number)
      : group_(std::move(members)),
        link_(link),
        header_tag_(4 * number),
        data_tag_(4 * number + 1),
        pair_header_tag_(4 * number + 2),
        pair_data_tag_(4 * number + 3),
        headers_(static_cast<std::size_t>(group_.size())) {}

  Result<void> barrier(const Call& call) override;
  Result<std::vector<std::string>> bytes(const Call& call, std::string_view mine) override;
  Result<void> all_reduce(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> reduce_scatter(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> all_gather(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> broadcast(const Call& call, Stream& stream, const TensorView& tensor) override;

  Result<void> all_to_all(const Call& call, Stream& stream, const TensorView& source,
                          const TensorView& target, const RowSplits& splits) override;
  Result<void> send(const PairCall& call, Stream& stream, const TensorView& tensor) override;
  Result<void> recv(const PairCall& call, Stream& stream, const TensorView& tensor) override;

 private:
  /// A call as it travels; a longer place is cut.
  struct Header {
    std::uint64_t sequence = 0;
    std::int64_t bytes = 0;
    std::int64_t payload = 0;  ///< That follows in gather_bytes.
    std::int64_t root = -1;
    std::array<char, 32> operation{};
    std::array<char, 128> place{};
  };

  /// Exchanges headers. Errors: kInvalid when the calls differ, and those of a wait.
  [[nodiscard]] Result<void> meet(const Call& call, std::int64_t payload);
  [[nodiscard]] Result<void> compare(const Call& call) const;
  [[nodiscard]] Result<void> scatter_sums(const Call& call, Stream& stream,
                                          const TensorView& tensor);
  [[nodiscard]] Result<void> gather_shards(const Call& call, const TensorView& tensor);
  /// Tells the other end of a message what this rank expects, and hears the same: the rendezvous.
  [[nodiscard]] Result<void> shake_hands(const PairCall& call, int other, Bytes bytes);
  /// part(bytes) for each message of a tensor.
  template <class Part>
  void in_messages(const TensorView& tensor, const Part& part) const;
  /// Message `round` of rank `shard`'s part of the tensor; empty past its end.
  [[nodiscard]] TensorView piece(const TensorView& tensor, int shard, std::int64_t round) const;
  [[nodiscard]] std::int64_t rounds(const TensorView& tensor) const;
  [[nodiscard]] int size() const { return group_.size(); }
  [[nodiscard]] Rank member(int rank) const {
    return group_.members[static_cast<std::size_t>(rank)];
  }
  /// The others, from the next one on, so that not all ranks send to the same one at once.
  [[nodiscard]] std::vector<int> others() const;

  Group group_;
  MpiLink& link_;
  int header_tag_;
  int data_tag_;
  int pair_header_tag_;
  int pair_data_tag_;
  std::vector<Header> headers_;  ///< Of the collective under way, by group rank.
};

}  // namespace quadrille::internal
