// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collectives timed on every rank of a world, ours and, among MPI processes, Open MPI's, one after
// the other.

#include <cstdint>
#include <string>
#include <vector>

#include "quadrille/base/json.h"
#include "quadrille/base/result.h"
#include "quadrille/comm/world.h"

namespace quadrille::internal {

enum class Collective : std::uint8_t { kAllReduce, kReduceScatter, kAllGather, kBroadcast };
inline constexpr EnumTable<Collective, 4> kCollectiveText{
    {{{Collective::kAllReduce, "all_reduce"},
      {Collective::kReduceScatter, "reduce_scatter"},
      {Collective::kAllGather, "all_gather"},
      {Collective::kBroadcast, "broadcast"}}}};

/// Seconds of a call on the slowest rank, by repetition.
struct CommSamples {
  Collective collective = Collective::kAllReduce;
  std::int64_t bytes = 0;
  std::vector<double> ours;
  std::vector<double> peers;  ///< Open MPI's; empty among threads.
};
[[nodiscard]] Json to_json(const std::vector<CommSamples>& samples);
/// Errors: kCorrupt.
[[nodiscard]] Result<std::vector<CommSamples>> comm_samples_from(const Json& json);

struct CommPlan {
  std::vector<std::int64_t> bytes;
  int repetitions = 7;
  bool with_peer = false;  ///< The ranks are MPI's.
};
/// Collective. The same samples on every rank.
[[nodiscard]] Result<std::vector<CommSamples>> time_collectives(World& world, const CommPlan& plan);

// Implemented by mpi_peer.cc, or by no_mpi.cc where this build has no MPI.

/// The same collective by MPI itself, in place, over all processes; floats.
void mpi_collective(Collective collective, float* data, std::int64_t count);

}  // namespace quadrille::internal
