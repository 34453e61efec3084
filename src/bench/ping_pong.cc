// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// How far two cores are apart: figures between cores swing with where a host puts its processors.

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "bench/limits.h"
#include "quadrille/base/units.h"
#include "quadrille/device/host_binding.h"

namespace quadrille::internal {
namespace {

void pin(std::thread& thread, int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);  // a wish
}

}  // namespace

double ping_pong_seconds() {
  const auto host = read_host_topology();
  if (!host || host->cores.size() < 2) return 0;
  constexpr int kRounds = 20'000;
  alignas(128) std::atomic<int> line{0};
  double seconds = 0;
  // Each waits for its parity. A core that is taken away ends no wait, hence the yield.
  const auto play = [&line](int parity) {
    for (int round = 0; round < kRounds; ++round) {
      for (int spins = 0; line.load(std::memory_order_acquire) % 2 != parity; ++spins) {
        if (spins > 100'000) std::this_thread::yield();
      }
      line.fetch_add(1, std::memory_order_release);
    }
  };
  std::thread first([&] {
    const Seconds begin = monotonic_now();
    play(0);
    seconds = (monotonic_now() - begin).count();
  });
  std::thread second([&] { play(1); });
  pin(first, host->cores[0]);
  pin(second, host->cores[1]);
  first.join();
  second.join();
  return seconds / (2 * kRounds);
}

}  // namespace quadrille::internal
