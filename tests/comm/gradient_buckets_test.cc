// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Whatever the order of contributions and the size of buckets, the reduced gradients have the bits
// of a serial sum in rank order; a contribution too many or too few is an error that names it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <numeric>
#include <random>

#include "quadrille/comm/gradient_buckets.h"
#include "quadrille/comm/world.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;

std::vector<GradientEntry> random_entries(std::mt19937& random) {
  std::vector<GradientEntry> entries;
  const int count = std::uniform_int_distribution<int>(1, 12)(random);
  for (int i = 0; i < count; ++i) {
    const std::int64_t rows = std::uniform_int_distribution<std::int64_t>(1, 40)(random);
    const std::int64_t columns = std::uniform_int_distribution<std::int64_t>(1, 40)(random);
    entries.push_back({"parameter " + std::to_string(i), Shape{rows, columns},
                       std::uniform_int_distribution<int>(1, 3)(random)});
  }
  return entries;
}

float part(int rank, std::size_t entry, int contribution, std::int64_t element) {
  std::minstd_rand mix(static_cast<unsigned>(rank * 7919 + static_cast<int>(entry) * 104729 +
                                             contribution * 31 + static_cast<int>(element) * 3 +
                                             1));
  mix.discard(2);
  return static_cast<float>(mix()) * 1e-6F - 1000.0F;
}

/// One rank's step: contributions in an order of its own, each added to the gradient.
struct Step {
  const std::vector<GradientEntry>& entries;
  std::int64_t micro_batches = 1;
  unsigned order_seed = 1;

  Result<void> run(GradientBuckets& buckets, Stream& stream, int rank) const {
    buckets.begin_step(micro_batches);
    std::vector<std::size_t> order;
    for (std::size_t e = 0; e < entries.size(); ++e) {
      order.insert(order.end(), static_cast<std::size_t>(entries[e].contributions * micro_batches),
                   e);
    }
    std::mt19937 shuffle(order_seed + static_cast<unsigned>(rank));
    std::shuffle(order.begin(), order.end(), shuffle);
    std::vector<int> arrived(entries.size());
    for (const std::size_t e : order) {
      const TensorView gradient = buckets.gradient(static_cast<int>(e));
      QD_ASSIGN_OR_RETURN(auto values, read_all<float>(stream, gradient));
      for (std::size_t i = 0; i < values.size(); ++i) {
        values[i] += part(rank, e, arrived[e], static_cast<std::int64_t>(i));
      }
      ++arrived[e];
      write_all<float>(stream, gradient, values);
      QD_RETURN_IF_ERROR(buckets.contribute(static_cast<int>(e)));
    }
    return buckets.finish();
  }

  [[nodiscard]] float expected(int ranks, std::size_t entry, std::int64_t element) const {
    float total = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      float mine = 0;
      for (int c = 0; c < entries[entry].contributions * micro_batches; ++c) {
        mine += part(rank, entry, c, element);
      }
      total = rank == 0 ? mine : total + mine;
    }
    return total;
  }
};

Result<void> check_step(World& world, const Step& step, Bytes bucket) {
  auto device = make_host_device();
  auto stream = device->make_stream();
  QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
  QD_ASSIGN_OR_RETURN(
      auto buckets,
      GradientBuckets::create({&world.whole(), stream.get(), pool.get(), bucket}, step.entries));
  for (int repeat = 0; repeat < 2; ++repeat) {  // a second step starts from zero again
    QD_RETURN_IF_ERROR(step.run(*buckets, *stream, world.rank().value));
    for (std::size_t e = 0; e < step.entries.size(); ++e) {
      QD_ASSIGN_OR_RETURN(const auto got,
                          read_all<float>(*stream, buckets->gradient(static_cast<int>(e))));
      for (std::size_t i = 0; i < got.size(); ++i) {
        const float right = step.expected(world.size(), e, static_cast<std::int64_t>(i));
        if (std::bit_cast<std::uint32_t>(right) == std::bit_cast<std::uint32_t>(got[i])) continue;
        return fail(Code::kCorrupt,
                    step.entries[e].name + " differs with buckets of " + to_text(bucket));
      }
    }
  }
  return {};
}

/// One rank's sharded step; micro-batch by micro-batch and in the entries' order, as backward does.
struct ShardedStep {
  const std::vector<GradientEntry>& entries;
  std::int64_t micro_batches = 1;
  int sharding = 1;

  [[nodiscard]] static float part_of(int rank, std::size_t entry, std::int64_t micro_batch,
                                     int contribution, std::int64_t element) {
    return part(rank, entry, static_cast<int>(micro_batch) * 5 + contribution, element);
  }

  /// An entry with several contributions has its first one before everybody else's.
  Result<void> run(GradientBuckets& buckets, Stream& stream, int rank) const {
    buckets.begin_step(micro_batches);
    for (std::int64_t m = 0; m < micro_batches; ++m) {
      for (const bool early : {true, false}) {
        for (std::size_t e = 0; e < entries.size(); ++e) {
          for (int c = early ? 0 : 1; c < entries[e].contributions - (early ? 1 : 0); ++c) {
            QD_RETURN_IF_ERROR(add(buckets, stream, {rank, e, m, c}));
          }
          if (early) continue;
          if (entries[e].contributions == 1) {
            QD_RETURN_IF_ERROR(add(buckets, stream, {rank, e, m, 0}));
          }
        }
      }
    }
    return buckets.finish();
  }

  struct Contribution {
    int rank;
    std::size_t entry;
    std::int64_t micro_batch;
    int number;
  };
  static Result<void> add(GradientBuckets& buckets, Stream& stream, const Contribution& c) {
    const TensorView gradient = buckets.gradient(static_cast<int>(c.entry));
    QD_ASSIGN_OR_RETURN(auto values, read_all<float>(stream, gradient));
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] += part_of(c.rank, c.entry, c.micro_batch, c.number, static_cast<std::int64_t>(i));
    }
    write_all<float>(stream, gradient, values);
    return buckets.contribute(static_cast<int>(c.entry));
  }

  /// Stage 1 adds up a rank's micro-batches, then the ranks; stage 2 the ranks of each micro-batch,
  /// then those.
  [[nodiscard]] float expected(int ranks, std::size_t entry, std::int64_t element) const {
    const auto of_rank = [&](int rank, std::int64_t first, std::int64_t end) {
      float mine = 0;
      for (std::int64_t m = first; m < end; ++m) {
        for (int c = 0; c < entries[entry].contributions; ++c) {
          mine += part_of(rank, entry, m, c, element);
        }
      }
      return mine;
    };
    const auto of_all = [&](std::int64_t first, std::int64_t end) {
      float total = of_rank(0, first, end);
      for (int rank = 1; rank < ranks; ++rank) total += of_rank(rank, first, end);
      return total;
    };
    if (sharding == 1) return of_all(0, micro_batches);
    float total = of_all(0, 1);
    for (std::int64_t m = 1; m < micro_batches; ++m) total += of_all(m, m + 1);
    return total;
  }
};

Result<void> check_sharded_step(World& world, const ShardedStep& step, Bytes bucket) {
  auto device = make_host_device();
  auto stream = device->make_stream();
  QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
  QD_ASSIGN_OR_RETURN(auto buckets, GradientBuckets::create({&world.whole(), stream.get(),
                                                             pool.get(), bucket, step.sharding},
                                                            step.entries));
  const auto pieces = buckets->layout().pieces(world.rank().value, world.size());
  for (int repeat = 0; repeat < 2; ++repeat) {  // a second step starts from zero again
    QD_RETURN_IF_ERROR(step.run(*buckets, *stream, world.rank().value));
    for (const FlatPiece& piece : pieces) {
      QD_ASSIGN_OR_RETURN(const auto got, read_all<float>(*stream, buckets->reduced(piece)));
      for (std::size_t i = 0; i < got.size(); ++i) {
        const auto entry = static_cast<std::size_t>(piece.tensor);
        const float right = step.expected(world.size(), entry,
                                          piece.of_tensor.first + static_cast<std::int64_t>(i));
        if (std::bit_cast<std::uint32_t>(right) == std::bit_cast<std::uint32_t>(got[i])) continue;
        return fail(Code::kCorrupt, step.entries[entry].name + " differs in stage " +
                                        std::to_string(step.sharding) + " with buckets of " +
                                        to_text(bucket));
      }
    }
  }
  return {};
}

TEST(GradientBuckets, ShardedOnesHaveTheBitsOfASerialSumInTheirSlices) {
  std::mt19937 random(20261202);
  for (int trial = 0; trial < 12; ++trial) {
    auto entries = random_entries(random);
    for (GradientEntry& entry : entries) entry.contributions = entry.contributions == 3 ? 2 : 1;
    for (const int sharding : {1, 2, 3}) {
      const ShardedStep step{entries, 1 + trial % 3, sharding};
      for (const Bytes bucket : {Bytes(1), 4_KiB, 4_MiB}) {
        const auto result = run_threads(1 + trial % 4, {}, [&](World& world) {
          return check_sharded_step(world, step, bucket);
        });
        ASSERT_TRUE(result.has_value()) << result.error().message;
      }
    }
  }
}

TEST(GradientBuckets, HaveTheSameBitsAtEveryBucketSizeAndOrderOfContributions) {
  std::mt19937 random(20261201);
  for (int trial = 0; trial < 12; ++trial) {
    const auto entries = random_entries(random);
    const Step step{entries, 1 + trial % 3, static_cast<unsigned>(random())};
    for (const Bytes bucket : {Bytes(1), Bytes(1000), 16_KiB, 4_MiB}) {
      const auto result = run_threads(
          1 + trial % 4, {}, [&](World& world) { return check_step(world, step, bucket); });
      ASSERT_TRUE(result.has_value()) << result.error().message;
    }
  }
}

class OneRank : public ::testing::Test {
 protected:
  void with_buckets(Bytes bucket, const std::function<void(GradientBuckets&)>& body) {
    const auto result = run_threads(1, {}, [&](World& world) -> Result<void> {
      auto device = make_host_device();
      auto stream = device->make_stream();
      QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
      QD_ASSIGN_OR_RETURN(
          auto buckets,
          GradientBuckets::create({&world.whole(), stream.get(), pool.get(), bucket}, entries_));
      body(*buckets);
      return {};
    });
    ASSERT_TRUE(result.has_value()) << result.error().message;
  }

  std::vector<GradientEntry> entries_ = {
      {"head", Shape{10, 10}, 2}, {"norm", Shape{3}, 1}, {"bias", Shape{5}, 1}};
};

TEST_F(OneRank, AContributionTooManyIsNamed) {
  with_buckets(4_MiB, [](GradientBuckets& buckets) {
    buckets.begin_step(1);
    ASSERT_TRUE(buckets.contribute(1).has_value());
    const auto again = buckets.contribute(1);
    ASSERT_FALSE(again.has_value());
    EXPECT_EQ(again.error().code, Code::kInternal);
    EXPECT_THAT(again.error().message, HasSubstr("\"norm\" got contribution 2 of 1 declared"));
  });
}

TEST_F(OneRank, AContributionAfterItsBucketWasReducedIsNamed) {
  with_buckets(Bytes(1), [](GradientBuckets& buckets) {
    buckets.begin_step(2);
    for (int i = 0; i < 4; ++i) ASSERT_TRUE(buckets.contribute(0).has_value());
    const auto late = buckets.contribute(0);
    ASSERT_FALSE(late.has_value());
    EXPECT_THAT(late.error().message, HasSubstr("\"head\" got contribution 5 of 4"));
  });
}

TEST_F(OneRank, MissingContributionsAreNamedAtTheEndOfTheStep) {
  with_buckets(4_MiB, [](GradientBuckets& buckets) {
    buckets.begin_step(1);
    ASSERT_TRUE(buckets.contribute(0).has_value());
    ASSERT_TRUE(buckets.contribute(2).has_value());
    const auto finished = buckets.finish();
    ASSERT_FALSE(finished.has_value());
    EXPECT_EQ(finished.error().code, Code::kInternal);
    EXPECT_THAT(finished.error().message, HasSubstr("\"head\" (1 of 2 contributions), \"norm\""));
    EXPECT_THAT(finished.error().message, ::testing::Not(HasSubstr("bias")));
  });
}

TEST_F(OneRank, AContributionBetweenStepsIsNamed) {
  with_buckets(4_MiB, [](GradientBuckets& buckets) {
    const auto early = buckets.contribute(2);
    ASSERT_FALSE(early.has_value());
    EXPECT_THAT(early.error().message, HasSubstr("\"bias\""));
    EXPECT_FALSE(buckets.finish().has_value());
  });
}

TEST_F(OneRank, LargeEntriesHaveABucketOfTheirOwnAndAllStartAtSixtyFourBytes) {
  with_buckets(Bytes(256), [](GradientBuckets& buckets) {
    EXPECT_EQ(buckets.buckets(), 2) << "head has 400 bytes, norm and bias fit into 256";
    for (int i = 0; i < buckets.entries(); ++i) {
      const auto address = reinterpret_cast<std::uintptr_t>(buckets.gradient(i).address());
      EXPECT_EQ(address % 64, 0U);
    }
    EXPECT_EQ(buckets.gradient(0).shape(), (Shape{10, 10}));
    EXPECT_GE(buckets.layout().elements(), 108);
  });
}

TEST_F(OneRank, BucketsThatShareMemoryTakeNoMoreThanTwoOfThemAndTheShard) {
  entries_.clear();
  for (int i = 0; i < 12; ++i) entries_.push_back({std::to_string(i), Shape{64}, 1, 0});
  const auto leased = [this](int sharding) {
    Bytes bytes;
    const auto result = run_threads(4, {}, [&](World& world) -> Result<void> {
      auto device = make_host_device();
      auto stream = device->make_stream();
      QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
      QD_ASSIGN_OR_RETURN(
          const auto buckets,
          GradientBuckets::create({&world.whole(), stream.get(), pool.get(), Bytes(512), sharding},
                                  entries_));
      if (world.rank() == Rank{0}) bytes = pool->leased(MemoryTag::kGradient);
      return {};
    });
    EXPECT_TRUE(result.has_value());
    return bytes;
  };
  EXPECT_EQ(leased(0), Bytes(12 * 256));
  EXPECT_EQ(leased(1), leased(0));
  EXPECT_EQ(leased(2), Bytes(2 * 512 + 12 * 256 / 4));
}

TEST_F(OneRank, AContributionToMemoryThatIsStillInUseIsNamed) {
  const auto result = run_threads(1, {}, [](World& world) -> Result<void> {
    auto device = make_host_device();
    auto stream = device->make_stream();
    QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
    const std::vector<GradientEntry> entries = {
        {"first", Shape{16}}, {"second", Shape{16}}, {"third", Shape{16}}};
    QD_ASSIGN_OR_RETURN(
        const auto buckets,
        GradientBuckets::create({&world.whole(), stream.get(), pool.get(), Bytes(64), 2}, entries));
    buckets->begin_step(1);
    QD_RETURN_IF_ERROR(buckets->contribute(1));  // its memory is nobody else's
    return buckets->contribute(2);
  });
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("\"third\" got a contribution before bucket 0"));
}

TEST_F(OneRank, AStepBeginsWithZerosWhereItsFirstContributionDoesNotOverwrite) {
  entries_[0].overwritten = true;
  const auto result = run_threads(1, {}, [&](World& world) -> Result<void> {
    auto device = make_host_device();
    auto stream = device->make_stream();
    QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
    QD_ASSIGN_OR_RETURN(
        auto buckets,
        GradientBuckets::create({&world.whole(), stream.get(), pool.get(), Bytes(64)}, entries_));
    const auto all_are = [&](int entry, float value) {
      const TensorView gradient = buckets->gradient(entry);
      return read_all<float>(*stream, gradient).value() ==
             std::vector<float>(static_cast<std::size_t>(gradient.elements()), value);
    };
    for (int entry = 0; entry < 3; ++entry) {
      EXPECT_TRUE(all_are(entry, 0)) << entry;
      kernels::fill(*stream, buckets->gradient(entry), 3);
    }
    buckets->begin_step(1);
    EXPECT_TRUE(all_are(0, 3));
    EXPECT_TRUE(all_are(1, 0));
    EXPECT_TRUE(all_are(2, 0));
    return {};
  });
  ASSERT_TRUE(result.has_value()) << result.error().message;
}

TEST_F(OneRank, AnEntryWithoutContributionsIsRefused) {
  entries_[1].contributions = 0;
  const auto result = run_threads(1, {}, [&](World& world) -> Result<void> {
    auto device = make_host_device();
    auto stream = device->make_stream();
    QD_ASSIGN_OR_RETURN(auto pool, Pool::create({device.get(), Bytes(0), "test"}));
    QD_RETURN_IF_ERROR(
        GradientBuckets::create({&world.whole(), stream.get(), pool.get(), Bytes(64)}, entries_));
    return {};
  });
  ASSERT_FALSE(result.has_value());
  EXPECT_THAT(result.error().message, HasSubstr("norm"));
}

}  // namespace
}  // namespace quadrille
