// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Four ranks as 2 (data) x 2 (tensor), with one tensor that all have and one that the tensor axis
// shards.

#include "train/replicas.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>

namespace quadrille {
namespace {

using testing::Each;
using testing::HasSubstr;

/// What each rank is told when `spoil` has changed its values.
std::vector<std::string> messages(
    const std::function<void(int, std::vector<float>&, std::vector<float>&)>& spoil) {
  Plan plan;
  plan.mesh = {.pipeline = 1, .data = 2, .context = 1, .tensor = 2};
  plan.job.parallel = {.data = 2, .tensor = 2};
  std::vector<std::string> all(4);
  const auto done = run_threads(4, {}, [&](World& world) -> Result<void> {
    const std::unique_ptr<Device> device = make_host_device();
    internal::RankBase base;
    base.plan = &plan;
    base.world = &world;
    base.stream = device->make_stream();
    QD_ASSIGN_OR_RETURN(base.pool, Pool::create({device.get(), Bytes(0), "test"}));
    QD_RETURN_IF_ERROR(internal::join_axes(base));
    const int rank = world.rank().value;
    std::vector<float> whole(6, 1.5F);
    std::vector<float> sharded(4, static_cast<float>(rank % 2));
    spoil(rank, whole, sharded);
    QD_ASSIGN_OR_RETURN(base.parameter_lease,
                        base.pool->lease(Bytes(256), MemoryTag::kParameter, "values"));
    base.tensors.push_back(
        {.name = "norm", .shape = {6}, .piece = internal::whole_piece({6}), .whole = {6}});
    const std::vector<std::int64_t> extents{8};
    base.tensors.push_back(
        {.name = "matrix",
         .shape = {4},
         .piece = TensorPiece::of(extents, AxisPlacement::sharded(0), rank % 2, 2),
         .whole = {8}});
    base.tensors[0].value = base.parameter_lease.view_at(Bytes(0), DType::kF32, {6});
    base.tensors[1].value = base.parameter_lease.view_at(Bytes(64), DType::kF32, {4});
    write_all<float>(*base.stream, base.tensors[0].value, whole);
    write_all<float>(*base.stream, base.tensors[1].value, sharded);
    const auto same = internal::compare_replicas(base, 7);
    all[static_cast<std::size_t>(rank)] = same ? "" : same.error().message;
    return {};
  });
  EXPECT_TRUE(done) << done.error().to_text();
  return all;
}

TEST(Replicas, PiecesMayDifferOverTheAxisThatShardsThem) {
  EXPECT_THAT(messages([](int, auto&, auto&) {}), Each(std::string()));
}

TEST(Replicas, OneBitOnOneRankIsFoundByTensorRanksAndAxisOnEveryRank) {
  const auto whole = messages([](int rank, std::vector<float>& values, auto&) {
    if (rank == 3) values[5] = std::nextafter(values[5], 2.0F);
  });
  EXPECT_THAT(whole, Each(HasSubstr("after step 7 parameter norm differs between rank")));
  const auto sharded = messages([](int rank, auto&, std::vector<float>& values) {
    if (rank == 2) values[0] = 9;
  });
  EXPECT_THAT(sharded, Each(HasSubstr("parameter matrix differs between rank 0 and rank 2, which "
                                      "hold the same on the data axis")));
}

}  // namespace
}  // namespace quadrille
