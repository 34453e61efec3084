// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/comm_loops.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "quadrille/device/host_binding.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/memory/pool.h"

namespace quadrille::internal {
namespace {

constexpr std::int64_t kMostInCache = 1 << 20;
/// Larger tensors come from memory: they take turns in this much of each rank's.
constexpr std::int64_t kRotated = std::int64_t{128} << 20;
/// Of the smaller ones, as many calls make a sample as move this much.
constexpr std::int64_t kSampleBytes = std::int64_t{8} << 20;
constexpr std::int64_t kMostCalls = 64;

class Loops {
 public:
  Loops(World& world, const CommPlan& plan)
      : world_(world), plan_(plan), device_(make_host_device()), stream_(device_->make_stream()) {}

  Result<std::vector<CommSamples>> run() {
    QD_ASSIGN_OR_RETURN(pool_, Pool::create({device_.get(), Bytes(0), "collectives"}));
    const std::int64_t largest = *std::max_element(plan_.bytes.begin(), plan_.bytes.end());
    room_ = largest > kMostInCache ? std::max(kRotated, largest) : largest;
    QD_ASSIGN_OR_RETURN(
        lease_, world_.whole().lease(*pool_, Bytes(room_), MemoryTag::kCommunication, "tensors"));
    std::vector<CommSamples> all;
    for (const auto& [collective, name] : kCollectiveText.rows) {
      for (const std::int64_t bytes : plan_.bytes) {
        QD_ASSIGN_OR_RETURN(CommSamples samples, time(collective, bytes));
        all.push_back(std::move(samples));
      }
    }
    return all;
  }

 private:
  Result<CommSamples> time(Collective collective, std::int64_t bytes) {
    CommSamples samples{collective, bytes, {}, {}};
    for (int i = -1; i < plan_.repetitions; ++i) {  // one more before, that does not count
      QD_ASSIGN_OR_RETURN(const double ours, sample(bytes, [&](const TensorView& tensor) {
                            return call(collective, tensor);
                          }));
      if (i >= 0) samples.ours.push_back(ours);
      if (!plan_.with_peer) continue;
      QD_ASSIGN_OR_RETURN(
          const double peer, sample(bytes, [&](const TensorView& tensor) -> Result<void> {
            mpi_collective(collective, static_cast<float*>(tensor.address()), tensor.elements());
            return {};
          }));
      if (i >= 0) samples.peers.push_back(peer);
    }
    QD_RETURN_IF_ERROR(take_slowest(samples.ours));
    QD_RETURN_IF_ERROR(take_slowest(samples.peers));
    return samples;
  }

  Result<void> call(Collective collective, const TensorView& tensor) {
    Communicator& group = world_.whole();
    CollectiveScope scope = group.open("a benchmark");
    switch (collective) {
      case Collective::kAllReduce:
        return group.all_reduce(scope, *stream_, tensor);
      case Collective::kReduceScatter:
        return group.reduce_scatter(scope, *stream_, tensor);
      case Collective::kAllGather:
        return group.all_gather(scope, *stream_, tensor);
      case Collective::kBroadcast:
        return group.broadcast(scope, *stream_, tensor, Rank{0});
    }
    return {};
  }

  /// Each rank writes its tensor, all meet, then the calls are timed.
  Result<double> sample(std::int64_t bytes,
                        const std::function<Result<void>(const TensorView&)>& one) {
    const bool rotates = bytes > kMostInCache;
    const std::int64_t places = rotates ? std::max<std::int64_t>(room_ / bytes, 1) : 1;
    const std::int64_t elements = bytes / element_bytes(DType::kF32);
    const TensorView tensor =
        lease_.view_at(Bytes(next_++ % places * bytes), DType::kF32, {elements});
    kernels::fill(*stream_, tensor, 0.0F);
    QD_RETURN_IF_ERROR(stream_->synchronize());
    const std::int64_t calls =
        rotates ? 1 : std::clamp<std::int64_t>(kSampleBytes / bytes, 1, kMostCalls);
    CollectiveScope scope = world_.whole().open("a benchmark's start");
    QD_RETURN_IF_ERROR(world_.whole().barrier(scope));
    const Seconds begin = monotonic_now();
    for (std::int64_t i = 0; i < calls; ++i) QD_RETURN_IF_ERROR(one(tensor));
    return (monotonic_now() - begin).count() / static_cast<double>(calls);
  }

  Result<void> take_slowest(std::vector<double>& mine) {
    CollectiveScope scope = world_.whole().open("a benchmark's times");
    const std::string_view bytes(reinterpret_cast<const char*>(mine.data()),
                                 mine.size() * sizeof(double));
    QD_ASSIGN_OR_RETURN(const std::vector<std::string> all,
                        world_.whole().gather_bytes(scope, bytes));
    for (const std::string& theirs : all) {
      QD_CHECK(theirs.size() == bytes.size());
      for (std::size_t i = 0; i < mine.size(); ++i) {
        double value = 0;
        std::memcpy(&value, theirs.data() + i * sizeof value, sizeof value);
        mine[i] = std::max(mine[i], value);
      }
    }
    return {};
  }

  World& world_;
  const CommPlan& plan_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Pool> pool_;
  Lease lease_;
  std::int64_t room_ = 0;
  std::int64_t next_ = 0;
};

Json array_of(const std::vector<double>& values) {
  Json array = Json::array();
  for (const double value : values) array.push(value);
  return array;
}

std::vector<double> values_of(const Json& row, const char* key) {
  std::vector<double> values;
  const Json* array = row.find(key);
  if (array == nullptr || !array->is_array()) return values;
  for (const Json& value : array->elements()) {
    if (value.is_number()) values.push_back(value.as_number());
  }
  return values;
}

}  // namespace

Json to_json(const std::vector<CommSamples>& samples) {
  Json rows = Json::array();
  for (const CommSamples& each : samples) {
    rows.push(Json::object()
                  .set("collective", kCollectiveText.text(each.collective))
                  .set("bytes", each.bytes)
                  .set("ours", array_of(each.ours))
                  .set("peers", array_of(each.peers)));
  }
  return rows;
}

Result<std::vector<CommSamples>> comm_samples_from(const Json& json) {
  if (!json.is_array()) return fail(Code::kCorrupt, "the MPI ranks' times are no array");
  std::vector<CommSamples> all;
  for (const Json& row : json.elements()) {
    const auto collective = kCollectiveText.value(row.string_or("collective", ""));
    CommSamples samples{collective.value_or(Collective::kAllReduce), row.integer_or("bytes", 0),
                        values_of(row, "ours"), values_of(row, "peers")};
    if (!collective || samples.bytes < 1 || samples.ours.empty()) {
      return fail(Code::kCorrupt, "a row of the MPI ranks' times is not whole");
    }
    all.push_back(std::move(samples));
  }
  return all;
}

Result<std::vector<CommSamples>> time_collectives(World& world, const CommPlan& plan) {
  QD_CHECK(!plan.bytes.empty());
  QD_ASSIGN_OR_RETURN(const HostTopology host, read_host_topology());
  QD_RETURN_IF_ERROR(
      bind_this_thread(share_of_host(host, world.local_rank(), world.ranks_on_host())));
  return Loops(world, plan).run();
}

}  // namespace quadrille::internal
