// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ranks as processes. Each collective begins with every rank's header to every other: it is the
// barrier, and it shows a difference of calls before any data moves. Sums come by direct exchange:
// each rank receives its shard from all others, a message at a time, and adds in rank order, which
// a ring or tree could not. Cost: p - 1 messages a rank in each round; N(p-1)/p elements on the
// wire for a reduce-scatter or an all-gather.

#include <array>
#include <cstdint>
#include <vector>

#include "comm/mpi_link.h"
#include "comm/recorded_communicator.h"

namespace quadrille::internal {

class MpiCommunicator final : public RecordedCommunicator {
 public:
  /// `number` of the group in the order of making, from 1: the same on all members.
  MpiCommunicator(Group members, MpiLink& link, int number)
      : RecordedCommunicator(std::move(members)),
        link_(link),
        header_tag_(2 * number),
        data_tag_(2 * number + 1),
        headers_(static_cast<std::size_t>(group().size())) {}

 protected:
  Result<void> move_barrier(const Call& call) override;
  Result<std::vector<std::string>> move_bytes(const Call& call, std::string_view mine) override;
  Result<void> move_all_reduce(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> move_reduce_scatter(const Call& call, Stream& stream,
                                   const TensorView& tensor) override;
  Result<void> move_all_gather(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> move_broadcast(const Call& call, Stream& stream, const TensorView& tensor) override;

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
  [[nodiscard]] Result<void> compare() const;
  [[nodiscard]] Result<void> scatter_sums(const Call& call, Stream& stream,
                                          const TensorView& tensor);
  [[nodiscard]] Result<void> gather_shards(const Call& call, const TensorView& tensor);
  /// Message `round` of rank `shard`'s part of the tensor; empty past its end.
  [[nodiscard]] TensorView piece(const TensorView& tensor, int shard, std::int64_t round) const;
  [[nodiscard]] std::int64_t rounds(const TensorView& tensor) const;
  [[nodiscard]] Rank member(int rank) const {
    return group().members[static_cast<std::size_t>(rank)];
  }
  /// The others, from the next one on, so that not all ranks send to the same one at once.
  [[nodiscard]] std::vector<int> others() const;

  MpiLink& link_;
  int header_tag_;
  int data_tag_;
  std::vector<Header> headers_;  ///< Of the collective under way, by group rank.
};

}  // namespace quadrille::internal
