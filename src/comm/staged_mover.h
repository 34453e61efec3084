// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collectives of processes of one host on memory that their peers cannot reach: piece by piece
// through a stage of each rank that all have mapped. Two more copies than in place, and two
// meetings a piece, but no messages. What each rank gets from one other only (all-to-all, send)
// goes by message: a stage would copy it once more.

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "comm/group.h"
#include "comm/meeting.h"
#include "comm/mover.h"

namespace quadrille::internal {

class StagedMover final : public Mover {
 public:
  /// Of each rank: what a second-level cache holds beside the tensor's own lines.
  static constexpr Bytes kStage = Bytes(256 << 10);
  [[nodiscard]] static Bytes memory_bytes(int ranks) { return kStage * ranks; }

  /// `stages` are the ranks' stages, one after the other. `messages` gathers bytes.
  StagedMover(Group group, Meeting& meeting, std::byte* stages, std::unique_ptr<Mover> messages)
      : group_(std::move(group)),
        meeting_(meeting),
        stages_(stages),
        messages_(std::move(messages)) {}

  Result<void> barrier(const Call& call) override { return meeting_.meet(call, {}, 0); }
  Result<std::vector<std::string>> bytes(const Call& call, std::string_view mine) override {
    return messages_->bytes(call, mine);
  }
  Result<void> all_reduce(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> reduce_scatter(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> all_gather(const Call& call, Stream& stream, const TensorView& tensor) override;
  Result<void> broadcast(const Call& call, Stream& stream, const TensorView& tensor) override;

  Result<void> all_to_all(const Call& call, Stream& stream, const TensorView& source,
                          const TensorView& target, const RowSplits& splits) override {
    return messages_->all_to_all(call, stream, source, target, splits);
  }
  Result<void> send(const PairCall& call, Stream& stream, const TensorView& tensor) override {
    return messages_->send(call, stream, tensor);
  }
  Result<void> recv(const PairCall& call, Stream& stream, const TensorView& tensor) override {
    return messages_->recv(call, stream, tensor);
  }

 private:
  /// Elements of a piece: a stage holds one of each rank's shard.
  [[nodiscard]] std::int64_t most(const TensorView& tensor) const;
  [[nodiscard]] std::int64_t rounds(const TensorView& tensor) const;
  /// Piece `round` of rank `shard`'s part of the tensor; empty past its end.
  [[nodiscard]] TensorView piece(const TensorView& tensor, int shard, std::int64_t round) const;
  /// The place of rank `shard`'s piece on `owner`'s stage, for something like `piece`.
  [[nodiscard]] TensorView staged(int owner, int shard, const TensorView& piece) const;
  /// Every rank's own piece of a round, as it lies on all stages.
  [[nodiscard]] std::vector<TensorView> staged_everywhere(const TensorView& piece) const;
  /// Waits for the stream and the others.
  [[nodiscard]] Result<void> meet(const Call& call, Stream& stream);
  [[nodiscard]] Result<void> leave(const Call& call, Stream& stream);
  void put_all(Stream& stream, const TensorView& tensor, std::int64_t round) const;

  Group group_;
  Meeting& meeting_;
  std::byte* stages_;
  std::unique_ptr<Mover> messages_;
};

}  // namespace quadrille::internal
