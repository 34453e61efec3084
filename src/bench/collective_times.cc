// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/bench/collective_times.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <thread>

#include "quadrille/comm/yardstick.h"
#include "quadrille/device/device.h"
#include "quadrille/kernels/collective.h"
#include "quadrille/memory/pool.h"

namespace quadrille {
namespace {

constexpr Bytes kHot = Bytes(1 << 20);  // up to here one buffer serves every call

/// What each rank measured becomes the slowest rank's.
Result<std::vector<double>> slowest(World& world, const std::vector<double>& mine) {
  CollectiveScope scope = world.whole().open("times");
  const std::string_view bytes(reinterpret_cast<const char*>(mine.data()), mine.size() * 8);
  QD_ASSIGN_OR_RETURN(const auto all, world.whole().gather_bytes(scope, bytes));
  std::vector<double> most(mine.size(), 0);
  for (const std::string& times : all) {
    for (std::size_t i = 0; i < most.size() && (i + 1) * 8 <= times.size(); ++i) {
      double value = 0;
      std::memcpy(&value, times.data() + i * 8, 8);
      most[i] = std::max(most[i], value);
    }
  }
  return most;
}

/// One way of a cache line between this thread and another one, on different cores.
double ping_pong_ns() {
  constexpr int kRounds = 4000;
  alignas(64) std::atomic<int> ball{0};
  const auto play = [&ball](int parity) {
    for (int i = 0; i < kRounds; ++i) {
      while (ball.load(std::memory_order_acquire) % 2 != parity) __builtin_ia32_pause();
      ball.fetch_add(1, std::memory_order_acq_rel);
    }
  };
  cpu_set_t mine;
  CPU_ZERO(&mine);
  CPU_SET(static_cast<std::size_t>(sched_getcpu()), &mine);
  cpu_set_t before;
  sched_getaffinity(0, sizeof before, &before);
  Seconds taken;
  {
    std::jthread other([&play, &mine] {
      cpu_set_t rest;
      CPU_ZERO(&rest);
      for (std::size_t cpu = 0; cpu < std::thread::hardware_concurrency(); ++cpu) {
        if (!CPU_ISSET(cpu, &mine)) CPU_SET(cpu, &rest);
      }
      sched_setaffinity(0, sizeof rest, &rest);
      play(1);
    });
    sched_setaffinity(0, sizeof mine, &mine);
    const Seconds started = monotonic_now();
    play(0);
    taken = monotonic_now() - started;
  }
  sched_setaffinity(0, sizeof before, &before);
  return taken.count() * 1e9 / (2.0 * kRounds);
}

/// The buffers of one size on this rank.
class Rotation {
 public:
  Rotation(std::span<float> all, std::size_t length) : all_(all), length_(length) {}
  std::span<float> next() {
    const std::size_t count = std::max<std::size_t>(all_.size() / length_, 1);
    return all_.subspan(next_++ % count * length_, length_);
  }

 private:
  std::span<float> all_;
  std::size_t length_;
  std::size_t next_ = 0;
};

class AllReduce {
 public:
  AllReduce(World& world, Device& device, Stream& stream, bool library)
      : world_(world),
        device_(device),
        stream_(stream),
        has_library_(library && world.backend() == "mpi") {}

  /// `ours` and `library` are this rank's buffers to rotate through.
  Result<CollectiveTimes> time(Bytes bytes, int calls, std::span<float> ours,
                               std::span<float> library) {
    const auto length = static_cast<std::size_t>(bytes.count()) / sizeof(float);
    const bool hot = bytes <= kHot;
    Rotation own(hot ? ours.first(length) : ours, length);
    Rotation theirs(hot ? library.first(length) : library, length);
    CollectiveTimes times{bytes, {}, {}, 0};
    if (world_.rank() == Rank{0}) times.ping_pong_ns = ping_pong_ns();
    for (int call = -2; call < calls; ++call) {  // two to warm up
      QD_ASSIGN_OR_RETURN(const double our_time, timed(own.next(), false));
      double library_time = 0;
      if (has_library_) {
        QD_ASSIGN_OR_RETURN(library_time, timed(theirs.next(), true));
      }
      if (call < 0) continue;
      times.ours.push_back(our_time);
      if (has_library_) times.library.push_back(library_time);
    }
    QD_ASSIGN_OR_RETURN(times.ours, slowest(world_, times.ours));
    QD_ASSIGN_OR_RETURN(times.library, slowest(world_, times.library));
    QD_ASSIGN_OR_RETURN(const auto ping_pong, slowest(world_, {times.ping_pong_ns}));
    times.ping_pong_ns = ping_pong.front();
    return times;
  }

 private:
  Result<double> timed(std::span<float> buffer, bool library) {
    const auto seed = static_cast<float>(world_.rank().value + 1);
    std::fill(buffer.begin(), buffer.end(), seed);
    CollectiveScope scope = world_.whole().open("benchmark");
    const TensorView tensor(&device_, buffer.data(), DType::kF32,
                            Shape{static_cast<std::int64_t>(buffer.size())});
    QD_RETURN_IF_ERROR(world_.whole().barrier(scope));
    const Seconds started = monotonic_now();
    if (library) {
      QD_RETURN_IF_ERROR(library_all_reduce(buffer));
    } else {
      QD_RETURN_IF_ERROR(world_.whole().all_reduce(scope, stream_, tensor));
    }
    const Seconds taken = monotonic_now() - started;
    const auto expected = static_cast<float>(world_.size() * (world_.size() + 1) / 2);
    for (const float value : buffer) {
      if (value != expected) return fail(Code::kCorrupt, "an all-reduce summed wrongly");
    }
    return taken.count();
  }

  World& world_;
  Device& device_;
  Stream& stream_;
  bool has_library_;
};

std::span<float> floats_of(const Lease& lease) {
  const std::int64_t count = lease.bytes().count() / 4;
  return {lease.view(DType::kF32, Shape{count}).host<float>(), static_cast<std::size_t>(count)};
}

}  // namespace

Result<std::vector<CollectiveTimes>> time_all_reduce(World& world, const CollectiveBench& bench) {
  Bytes most = bench.rotation;
  for (const Bytes bytes : bench.sizes) most = std::max(most, bytes);
  const auto device = make_host_device();
  const auto stream = device->make_stream();
  QD_ASSIGN_OR_RETURN(const auto pool, Pool::create({device.get(), Bytes(0), "benchmark"}));
  QD_ASSIGN_OR_RETURN(const Lease ours,
                      world.whole().lease(*pool, most, MemoryTag::kCommunication, "buffers"));
  QD_ASSIGN_OR_RETURN(const Lease library, pool->lease(most, MemoryTag::kCommunication, "buffers"));
  AllReduce all_reduce(world, *device, *stream, bench.library);
  std::vector<CollectiveTimes> all;
  for (const Bytes bytes : bench.sizes) {
    if (bytes < Bytes(4) || bytes.count() % 4 != 0) {
      return fail(Code::kInvalid, "an all-reduce of " + to_text(bytes) + " is no number of floats");
    }
    const int calls = bytes <= kHot ? bench.most_calls
                                    : std::clamp(static_cast<int>(most.count() / bytes.count()), 9,
                                                 bench.most_calls);
    QD_ASSIGN_OR_RETURN(auto times,
                        all_reduce.time(bytes, calls, floats_of(ours), floats_of(library)));
    all.push_back(std::move(times));
  }
  return all;
}

Result<double> in_place_sum_rate(World& world) {
  constexpr std::int64_t kElements = 16 << 20;
  constexpr int kRounds = 5;
  const auto device = make_host_device();
  const auto stream = device->make_stream();
  QD_ASSIGN_OR_RETURN(const auto pool, Pool::create({device.get(), Bytes(0), "benchmark"}));
  QD_ASSIGN_OR_RETURN(const Lease lease,
                      pool->lease(Bytes(8 * kElements), MemoryTag::kCommunication, "arrays"));
  const TensorView both = lease.view(DType::kF32, Shape{2 * kElements});
  const std::vector<TensorView> arrays = {both.flat(0, kElements), both.flat(kElements, kElements)};
  std::vector<double> seconds;
  for (int round = 0; round < kRounds; ++round) {
    CollectiveScope scope = world.whole().open("benchmark");
    QD_RETURN_IF_ERROR(world.whole().barrier(scope));
    const Seconds started = monotonic_now();
    kernels::sum_into_all(*stream, arrays);
    QD_RETURN_IF_ERROR(stream->synchronize());
    seconds.push_back((monotonic_now() - started).count());
  }
  QD_ASSIGN_OR_RETURN(seconds, slowest(world, seconds));
  std::nth_element(seconds.begin(), seconds.begin() + kRounds / 2, seconds.end());
  return 4.0 * 4.0 * static_cast<double>(kElements) * world.size() / seconds[kRounds / 2];
}

}  // namespace quadrille
