// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// What the tensor axis asks of collectives and buckets: shards that are whole rows, and gradients
// that are sums over it as well. Four ranks as 2 (data) x 2 (tensor).

#include <gtest/gtest.h>

#include <array>

#include "quadrille/comm/gradient_buckets.h"
#include "quadrille/comm/world.h"
#include "quadrille/mesh/placement.h"

namespace quadrille {
namespace {

/// A pool and a stream of one rank.
struct Memory {
  Memory() : device(make_host_device()), stream(device->make_stream()) {
    auto made = Pool::create({device.get(), Bytes(0), "test"});
    QD_CHECK(made.has_value());
    pool = *std::move(made);
  }
  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Pool> pool;
};

TEST(TensorAxis, ShardsAreRowsOfTheOutermostDimension) {
  constexpr int kRanks = 3;
  const auto done = run_threads(kRanks, {}, [](World& world) -> Result<void> {
    Memory memory;
    const Shape shape{7, 5};
    QD_ASSIGN_OR_RETURN(const Lease lease,
                        memory.pool->lease(Bytes(4 * 35), MemoryTag::kWorkspace, "rows"));
    const TensorView tensor = lease.view(DType::kF32, shape);
    std::vector<float> values(35);
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = static_cast<float>(i) * static_cast<float>(world.rank().value + 1);
    }
    write_all<float>(*memory.stream, tensor, values);
    CollectiveScope scope = world.whole().open("rows");
    QD_RETURN_IF_ERROR(world.whole().reduce_scatter(scope, *memory.stream, tensor));
    const Extent mine = shard_extent(7, world.rank().value, kRanks);
    QD_ASSIGN_OR_RETURN(const auto sums,
                        read_all<float>(*memory.stream, tensor.rows(mine.first, mine.length)));
    for (std::size_t i = 0; i < sums.size(); ++i) {
      const auto at = static_cast<float>(mine.first * 5 + static_cast<std::int64_t>(i));
      EXPECT_EQ(sums[i], at * 6);  // 1 + 2 + 3
    }
    QD_RETURN_IF_ERROR(world.whole().all_gather(scope, *memory.stream, tensor));
    QD_ASSIGN_OR_RETURN(const auto all, read_all<float>(*memory.stream, tensor));
    for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], static_cast<float>(i) * 6);
    return {};
  });
  EXPECT_TRUE(done) << done.error().to_text();
}

TEST(TensorAxis, PartialGradientsAreSummedOverBothAxesAndOthersOverDataAlone) {
  for (const std::int64_t bucket : {64, 4096}) {
    const auto done = run_threads(4, {}, [bucket](World& world) -> Result<void> {
      Memory memory;
      const int rank = world.rank().value;
      const std::array data{Rank{rank % 2}, Rank{rank % 2 + 2}};
      const std::array tensor{Rank{rank / 2 * 2}, Rank{rank / 2 * 2 + 1}};
      QD_ASSIGN_OR_RETURN(Communicator * data_group, world.group(data));
      QD_ASSIGN_OR_RETURN(Communicator * tensor_group, world.group(tensor));
      // Shapes of the sharded ones may differ over the tensor axis.
      const std::vector<GradientEntry> entries{
          {.name = "sharded", .shape = {3 + 20 * (rank % 2)}},
          {.name = "norm.weight", .shape = {5}, .partial = true},
          {.name = "norm.bias", .shape = {5}, .partial = true},
          {.name = "replicated", .shape = {2}}};
      QD_ASSIGN_OR_RETURN(const auto buckets,
                          GradientBuckets::create({.group = data_group,
                                                   .stream = memory.stream.get(),
                                                   .pool = memory.pool.get(),
                                                   .bucket = Bytes(bucket),
                                                   .tensor_group = tensor_group},
                                                  entries));
      buckets->begin_step(1);
      for (int i = 0; i < 4; ++i) {
        const TensorView gradient = buckets->gradient(i);
        const std::vector<float> values(static_cast<std::size_t>(gradient.elements()),
                                        static_cast<float>(1 << rank));
        write_all<float>(*memory.stream, gradient, values);
        QD_RETURN_IF_ERROR(buckets->contribute(i));
      }
      QD_RETURN_IF_ERROR(buckets->finish());
      const float over_data = rank % 2 == 0 ? 1 + 4 : 2 + 8;
      for (int i = 0; i < 4; ++i) {
        QD_ASSIGN_OR_RETURN(const auto sums, read_all<float>(*memory.stream, buckets->gradient(i)));
        const float expected = i == 1 || i == 2 ? 1 + 2 + 4 + 8 : over_data;
        for (const float sum : sums) EXPECT_EQ(sum, expected) << entries[std::size_t(i)].name;
      }
      return {};
    });
    EXPECT_TRUE(done) << done.error().to_text();
  }
}

}  // namespace
}  // namespace quadrille
