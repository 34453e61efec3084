// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/replicas.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "quadrille/base/hash.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kPieceElements = (1 << 20) / sizeof(float);

/// Of the values of every tensor, through a fixed amount of host memory.
Result<std::vector<std::uint64_t>> hashes_of(RankBase& base) {
  std::vector<float> piece(kPieceElements);
  std::vector<std::uint64_t> hashes;
  for (const TrainedTensor& tensor : base.tensors) {
    Hasher hasher;
    const std::int64_t elements = tensor.value.elements();
    for (std::int64_t first = 0; first < elements; first += kPieceElements) {
      const std::int64_t count = std::min(kPieceElements, elements - first);
      const auto bytes =
          std::as_writable_bytes(std::span(piece).first(static_cast<std::size_t>(count)));
      base.stream->download(tensor.value.flat(first, count), bytes);
      QD_RETURN_IF_ERROR(base.stream->synchronize());
      hasher.add(bytes);
    }
    hashes.push_back(hasher.digest());
  }
  return hashes;
}

struct Comparison {
  Communicator* group = nullptr;
  Axis axis = Axis::kData;
  bool whole_only = false;  ///< Only tensors that no rank of the axis has a piece of.
};

/// World rank of the group's member `index`.
Rank world_rank(const RankBase& base, Axis axis, std::size_t index) {
  const auto mesh = Mesh::create(base.plan->mesh);
  QD_CHECK(mesh.has_value());
  return mesh->group(base.world->rank(), std::span(&axis, 1))[index];
}

Result<void> compare(const RankBase& base, const std::vector<std::uint64_t>& hashes,
                     const Comparison& comparison, std::int64_t step) {
  if (comparison.group->size() == 1) return {};
  CollectiveScope scope = comparison.group->open("hashes of the parameters");
  const std::string_view mine(reinterpret_cast<const char*>(hashes.data()),
                              hashes.size() * sizeof(std::uint64_t));
  QD_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                      comparison.group->gather_bytes(scope, mine));
  for (std::size_t t = 0; t < base.tensors.size(); ++t) {
    if (comparison.whole_only && base.tensors[t].is_sharded()) continue;
    for (std::size_t r = 1; r < all.size(); ++r) {
      QD_CHECK(all[r].size() == all[0].size());
      const std::size_t at = t * sizeof(std::uint64_t);
      if (std::memcmp(all[0].data() + at, all[r].data() + at, sizeof(std::uint64_t)) == 0) continue;
      return fail(
          Code::kInternal,
          fmt::format("after step {} parameter {} differs between rank {} and rank {}, "
                      "which hold the same on the {} axis",
                      step, base.tensors[t].name, world_rank(base, comparison.axis, 0).value,
                      world_rank(base, comparison.axis, r).value, kAxisText.text(comparison.axis)));
    }
  }
  return {};
}

}  // namespace

bool compares_replicas(const RankBase& base, std::int64_t step) {
  const std::int64_t every = base.plan->job.observe.compare_every;
  // From stage 3 on a rank keeps only its own slices.
  if (base.sharding() >= 3) return false;
  return every > 0 && base.world->size() > 1 && (step == 1 || step % every == 0);
}

Result<void> compare_replicas(RankBase& base, std::int64_t step) {
  QD_ASSIGN_OR_RETURN(const std::vector<std::uint64_t> hashes, hashes_of(base));
  auto alike = compare(base, hashes, {base.tensor_group, Axis::kTensor, true}, step);
  // A group that differs goes on to the other's collective: its members are in it too.
  auto over_data = compare(base, hashes, {base.data_group, Axis::kData, false}, step);
  if (alike) alike = std::move(over_data);
  return agree_on(*base.world, alike);
}

}  // namespace quadrille::internal
