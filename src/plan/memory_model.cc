// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "plan/memory_model.h"

#include <algorithm>
#include <array>
#include <ranges>
#include <set>
#include <vector>

#include "quadrille/base/check.h"
#include "quadrille/config/model_shapes.h"
#include "quadrille/mesh/flat_layout.h"
#include "quadrille/plan/activation_arena.h"
#include "quadrille/schedule/builders.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kFp32Bytes = 4;
constexpr std::int64_t kBf16Bytes = 2;
constexpr std::int64_t kTokenIdBytes = 4;
constexpr std::int64_t kSumOfSquaresBytes = 8;   // of each gradient, in float64
constexpr std::int64_t kStatesPerParameter = 3;  // value, first and second moment
constexpr Bytes kMessage = 1_MiB;                // the longest that ranks send each other
constexpr Bytes kStage = 272_KiB;                // of a rank: the stage, and its place in a meeting

Bytes aligned(Bytes bytes) {
  return Bytes((bytes.count() + kAlignment - 1) / kAlignment * kAlignment);
}

/// How the tensors of a rank of the tensor axis lie in buckets, as the trainer lays them out.
FlatLayout flat_layout(const JobSpec& job, const TensorShare& share, int sharding) {
  const std::vector<ParameterShape> shapes = parameter_shapes(job.model, share);
  std::vector<FlatTensor> tensors;
  for (const int index : backward_order(job.model)) {
    const ParameterShape& shape = shapes[static_cast<std::size_t>(index)];
    tensors.push_back(
        {shape.piece(share).elements(), shape.layer, gradient_contributions(job.model, shape)});
  }
  return FlatLayout(tensors, {job.communication.bucket, sharding});
}

/// A checkpoint passes through a little memory on its way to the disk, as much as the rank's share
/// of it needs.
Bytes staged(Bytes share) {
  constexpr std::int64_t kPair = 8 << 10;  // two blocks of a disk
  constexpr Bytes kMost = 8_MiB;
  return std::clamp(Bytes((share.count() + kPair - 1) / kPair * kPair), Bytes(kPair), kMost);
}

/// What a rank updates: its pieces of tensors, or all of them.
struct UpdatedPieces {
  Bytes moments;  ///< Both, each on its own cache lines.
  Bytes norms;    ///< Sums of squares, in float64.
  Bytes staging;  ///< Of a checkpoint: values and moments.
};

UpdatedPieces pieces_of_rank(const FlatLayout& layout, int rank, int ranks) {
  UpdatedPieces sum;
  for (const FlatPiece& piece : layout.pieces(rank, ranks)) {
    const Bytes bytes = Bytes(kFp32Bytes) * piece.of_tensor.length;
    sum.moments += aligned(bytes) * 2;
    sum.norms += Bytes(kSumOfSquaresBytes);
    sum.staging += bytes * kStatesPerParameter;
  }
  sum.staging = staged(sum.staging);
  return sum;
}

/// The most that a rank has. Slices differ by an element a bucket; beyond a few ranks only the
/// first ones are looked at, and a cache line a piece allowed for.
UpdatedPieces most_pieces(const FlatLayout& layout, int ranks) {
  constexpr int kLooked = 64;
  UpdatedPieces most;
  for (int rank = 0; rank < std::min(ranks, kLooked); ++rank) {
    const UpdatedPieces mine = pieces_of_rank(layout, rank, ranks);
    most.moments = std::max(most.moments, mine.moments);
    if (mine.norms + mine.staging <= most.norms + most.staging) continue;
    most.norms = mine.norms;
    most.staging = mine.staging;
  }
  if (ranks > kLooked) most.moments += most.norms * (2 * kAlignment / kSumOfSquaresBytes);
  return most;
}

/// Of the rank that has most: the first.
std::int64_t shard_elements(const FlatLayout& layout, int ranks) {
  return layout.place_in_shard(static_cast<int>(layout.buckets().size()), 0, ranks);
}

/// All values; or a rank's slices, and two layers gathered.
Bytes parameter_bytes(const JobSpec& job, const FlatLayout& layout, int sharding, int ranks) {
  if (sharding < 3) return Bytes(kFp32Bytes) * layout.elements();
  std::vector<std::vector<int>> layers = parameters_of_layers(job.model);
  const std::vector<int> order = backward_order(job.model);
  for (int& tensor : std::views::join(layers)) {
    tensor = static_cast<int>(std::find(order.begin(), order.end(), tensor) - order.begin());
  }
  return Bytes(kFp32Bytes) *
         (shard_elements(layout, ranks) + lay_out_layers(layout, layers).elements);
}

/// All gradients; or a rank's sums, and what buckets share.
Bytes gradient_bytes(const FlatLayout& layout, int sharding, int ranks) {
  if (sharding < 2) return Bytes(kFp32Bytes) * layout.elements();
  return Bytes(kFp32Bytes) * (shard_elements(layout, ranks) + lay_out_arena(layout).elements);
}

/// Every micro-batch lives in the same places, so one is enough to size the arena.
Bytes arena_bytes(const JobSpec& job, std::int64_t micro_batch, const TensorShare& share) {
  const auto program =
      build_single_stage({.ranks = 1, .layers = layer_count(job.model), .micro_batches = 1});
  QD_CHECK(program.has_value());
  const ActivationArena arena = activation_arena(job.model, {micro_batch, job.training.sequence},
                                                 program->ranks.front(), share);
  return arena.layout.total;
}

/// Inputs and targets of one micro-batch and its loss sum.
Bytes batch_bytes(const JobSpec& job, std::int64_t micro_batch) {
  const Bytes ids = aligned(Bytes(kTokenIdBytes) * micro_batch * job.training.sequence);
  return ids * 2 + Bytes(kAlignment);
}

/// Where products round their factors; without rounding there is none.
Bytes rounding_bytes(const JobSpec& job, std::int64_t micro_batch, const TensorShare& share) {
  if (job.training.precision == Precision::kFp32) return Bytes(0);
  return Bytes(kFp32Bytes) *
         rounding_scratch(job.model, {micro_batch, job.training.sequence}, share);
}

/// The values that products read, rounded once a step, each on its own cache lines; not where a
/// layer's values come and go.
Bytes rounded_value_bytes(const JobSpec& job, const TensorShare& share, int sharding) {
  Bytes total;
  if (job.training.precision == Precision::kFp32 || sharding >= 3) return total;
  for (const ParameterShape& shape : parameter_shapes(job.model, share)) {
    if (shape.in_product) total += aligned(Bytes(kBf16Bytes) * shape.piece(share).elements());
  }
  return total;
}

/// What a rank writes of a checkpoint. Its tensors, a parameter and its two moments one after the
/// other, are dealt to the ranks in contiguous runs: a tensor belongs to the rank in
/// whose part of the bytes its middle lies. This is the largest rank's.
Bytes checkpoint_share(const ModelSpec& model, int ranks) {
  const Bytes total = Bytes(kFp32Bytes * kStatesPerParameter) * parameter_count(model);
  std::vector<Bytes> shares(static_cast<std::size_t>(ranks));
  Bytes before;
  for (const ParameterShape& shape : parameter_shapes(model)) {
    const Bytes bytes = Bytes(kFp32Bytes) * shape.elements();
    for (std::int64_t state = 0; state < kStatesPerParameter; ++state) {
      const auto middle = static_cast<__int128>(before.count() + bytes.count() / 2);
      shares[static_cast<std::size_t>(middle * ranks / (total.count() + 1))] += bytes;
      before += bytes;
    }
  }
  return *std::max_element(shares.begin(), shares.end());
}

/// Ranks that are processes receive the peers' parts of a bucket before they sum them: a part is a
/// bucket's share of one rank, or a message where that is less. A bucket holds at least one
/// gradient whole.
Bytes message_staging_bytes(const JobSpec& job, int ranks) {
  Bytes bucket = job.communication.bucket;
  for (const ParameterShape& shape : parameter_shapes(job.model)) {
    bucket = std::max(bucket, aligned(Bytes(kFp32Bytes) * shape.elements()));
  }
  const Bytes part((bucket.count() + ranks - 1) / ranks);
  return aligned(std::min(part, kMessage)) * (ranks - 1);
}

/// Where processes of one host meet, and pass what their peers cannot reach: one such place for all
/// ranks, and one for each axis where there are two.
Bytes stage_bytes(const JobSpec& job, const LayoutCandidate& candidate) {
  if (!job.communication.shared_memory || candidate.ranks() == 1) return Bytes(0);
  const bool has_axes = candidate.data > 1 && candidate.tensor > 1;
  return kStage * (has_axes ? 3 : 1);
}

}  // namespace

Bytes RankMemory::total() const {
  Bytes sum;
  for (const auto& [tag, bytes] : by_tag) sum += bytes;
  return sum;
}

namespace {

/// Of one rank of the tensor axis.
RankMemory memory_of(const JobSpec& job, const LayoutCandidate& candidate,
                     const TensorShare& share) {
  const int sharding = candidate.data == 1 ? 0 : static_cast<int>(job.parallel.sharding);
  const FlatLayout layout = flat_layout(job, share, sharding);
  const UpdatedPieces updated = most_pieces(layout, sharding == 0 ? 1 : candidate.data);
  RankMemory memory;
  memory.activation_arena = arena_bytes(job, candidate.micro_batch, share);
  memory.by_tag["parameter"] = parameter_bytes(job, layout, sharding, candidate.data);
  memory.by_tag["gradient"] = gradient_bytes(layout, sharding, candidate.data);
  memory.by_tag["optimizer"] = updated.moments;
  memory.by_tag["activation"] = memory.activation_arena;
  memory.by_tag["communication"] =
      candidate.processes
          ? message_staging_bytes(job, candidate.ranks()) + stage_bytes(job, candidate)
          : Bytes(0);
  // A rank's slices go into checkpoints by itself, whole tensors are dealt out.
  const Bytes staging =
      sharding == 0 ? staged(checkpoint_share(job.model, candidate.ranks())) : updated.staging;
  memory.by_tag["workspace"] = batch_bytes(job, candidate.micro_batch) +
                               rounding_bytes(job, candidate.micro_batch, share) +
                               rounded_value_bytes(job, share, sharding) + updated.norms + staging;
  return memory;
}

/// Ranks of the tensor axis whose shares differ in size. Of equal ones one is enough.
std::vector<TensorShare> distinct_shares(const JobSpec& job, const LayoutCandidate& candidate) {
  const ModelSpec& model = job.model;
  const std::int64_t rows = candidate.micro_batch * job.training.sequence;
  std::set<std::array<std::int64_t, 4>> seen;
  std::vector<TensorShare> distinct;
  for (int index = 0; index < candidate.tensor; ++index) {
    const TensorShare share{candidate.tensor, index, candidate.sequence};
    if (candidate.tensor == 1) return {share};
    const std::array<std::int64_t, 4> extents{
        query_heads(model, share).length, ffn_columns(model, share).length,
        vocab_rows(model, share).length, residual_rows(rows, share).length};
    if (seen.insert(extents).second) distinct.push_back(share);
  }
  return distinct;
}

}  // namespace

RankMemory rank_memory(const JobSpec& job, const LayoutCandidate& candidate) {
  QD_CHECK(candidate.data >= 1 && candidate.tensor >= 1);
  QD_CHECK(candidate.micro_batch >= 1);
  RankMemory most;
  for (const TensorShare& share : distinct_shares(job, candidate)) {
    const RankMemory memory = memory_of(job, candidate, share);
    most.activation_arena = std::max(most.activation_arena, memory.activation_arena);
    for (const auto& [tag, bytes] : memory.by_tag) {
      most.by_tag[tag] = std::max(most.by_tag[tag], bytes);
    }
  }
  // The arenas of the ranks that share a model are equally large, so that each can reach the
  // others'.
  most.by_tag["activation"] = most.activation_arena;
  return most;
}

Bytes checkpoint_size(const ModelSpec& model) {
  // A tensor's entry in a shard header and in the manifest, generously.
  constexpr std::int64_t kEntryBytes = 512;
  constexpr std::int64_t kFixedBytes = 16 << 10;
  Bytes total(kFixedBytes);
  for (const ParameterShape& shape : parameter_shapes(model)) {
    total += (Bytes(kFp32Bytes) * shape.elements() + Bytes(kEntryBytes)) * kStatesPerParameter;
  }
  return total;
}

}  // namespace quadrille::internal
