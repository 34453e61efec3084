// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/device/host_binding.h"

#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <numeric>
#include <set>
#include <thread>

namespace quadrille {
namespace {

HostTopology host_of(int cores) {
  HostTopology topology;
  for (int i = 0; i < cores; ++i) topology.cores.push_back(100 + 2 * i);
  return topology;
}

TEST(HostShare, RanksPartTheCoresInContiguousRuns) {
  for (int cores = 1; cores <= 12; ++cores) {
    const HostTopology topology = host_of(cores);
    for (int ranks = 1; ranks <= cores; ++ranks) {
      std::vector<int> all;
      for (int rank = 0; rank < ranks; ++rank) {
        const HostShare share = share_of_host(topology, Rank{rank}, ranks);
        EXPECT_FALSE(share.oversubscribed);
        EXPECT_EQ(share.threads, static_cast<int>(share.cores.size()));
        EXPECT_LE(std::abs(share.threads * ranks - cores), ranks - 1) << cores << " over " << ranks;
        all.insert(all.end(), share.cores.begin(), share.cores.end());
      }
      EXPECT_EQ(all, topology.cores);
    }
  }
}

TEST(HostShare, MoreRanksThanCoresSpreadEvenlyAndSaySo) {
  const HostTopology topology = host_of(3);
  for (int ranks = 4; ranks <= 13; ++ranks) {
    std::vector<int> load(200, 0);
    for (int rank = 0; rank < ranks; ++rank) {
      const HostShare share = share_of_host(topology, Rank{rank}, ranks);
      EXPECT_TRUE(share.oversubscribed);
      EXPECT_EQ(share.threads, 1);
      ASSERT_EQ(share.cores.size(), 1u);
      ++load[static_cast<std::size_t>(share.cores[0])];
    }
    const auto [least, most] = std::minmax({load[100], load[102], load[104]});
    EXPECT_LE(most - least, 1) << ranks;
    EXPECT_EQ(std::accumulate(load.begin(), load.end(), 0), ranks);
  }
}

TEST(HostShare, AProcessorTimeQuotaSizesPoolsButPinsNobody) {
  HostTopology topology = host_of(4);
  topology.time_quota = true;
  const HostShare share = share_of_host(topology, Rank{1}, 2);
  EXPECT_TRUE(share.cores.empty());
  EXPECT_EQ(share.threads, 2);
}

TEST(HostTopology, ListsCoresThatThisThreadMayUse) {
  const auto topology = read_host_topology();
  ASSERT_TRUE(topology.has_value()) << topology.error().to_text();
  cpu_set_t allowed;
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  ASSERT_FALSE(topology->cores.empty());
  for (const int core : topology->cores)
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(core), &allowed));
  const std::set<int> distinct(topology->cores.begin(), topology->cores.end());
  EXPECT_EQ(distinct.size(), topology->cores.size());
  EXPECT_GE(topology->numa_nodes, 1);
  EXPECT_GT(topology->memory, 16_MiB);
  EXPECT_FALSE(topology->processor.empty());
  EXPECT_FALSE(topology->instruction_set.empty());
}

TEST(HostTopology, HonoursANarrowerAffinity) {
  const auto whole = read_host_topology();
  ASSERT_TRUE(whole.has_value());
  std::thread([&] {
    const int last = whole->cores.back();
    ASSERT_TRUE(bind_this_thread({{last}, 1, false}).has_value());
    const auto narrowed = read_host_topology();
    ASSERT_TRUE(narrowed.has_value());
    EXPECT_EQ(narrowed->cores, std::vector<int>{last});
  }).join();
}

TEST(BindThisThread, PinsTheThreadAndItsPool) {
  const auto topology = read_host_topology();
  ASSERT_TRUE(topology.has_value());
  std::thread([&] {
    const int core = topology->cores.front();
    ASSERT_TRUE(bind_this_thread({{core}, 3, false}).has_value());
    EXPECT_EQ(omp_get_max_threads(), 3);
    std::array<int, 3> places{-1, -1, -1};
#pragma omp parallel num_threads(3)
    places[static_cast<std::size_t>(omp_get_thread_num())] = sched_getcpu();
    EXPECT_EQ(places, (std::array{core, core, core}));
  }).join();
}

TEST(BindThisThread, SaysThatACoreIsNotThere) {
  std::thread([] {
    const auto bound = bind_this_thread({{CPU_SETSIZE - 1}, 1, false});
    ASSERT_FALSE(bound.has_value());
    EXPECT_NE(bound.error().message.find("cannot pin a rank to its cores"), std::string::npos);
  }).join();
}

}  // namespace
}  // namespace quadrille
