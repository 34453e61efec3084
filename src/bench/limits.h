// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the machine does when nothing else is asked of it: loops over memory and over registers, on
// the calling thread's OpenMP pool, vectorised for the best instruction set it has.

#include <cstdint>
#include <functional>
#include <vector>

namespace quadrille::internal {

/// Arrays of floats that a loop runs over.
class Traffic {
 public:
  /// `arrays` of `bytes` each, in huge pages where there are some, touched by the pool's threads.
  Traffic(int arrays, std::int64_t bytes);
  ~Traffic();
  Traffic(const Traffic&) = delete;
  Traffic& operator=(const Traffic&) = delete;

  void read();                ///< One array; 1 read.
  void copy();                ///< b = a past the caches; 1 read, 1 write.
  void accumulate();          ///< a = b = a + b, as an all-reduce of two ranks: 2 reads, 2 writes.
  void update();              ///< a, c, d from a, b, c, d, as AdamW: 4 reads, 3 writes.
  void update_past_caches();  ///< The same with stores that leave the caches alone.
  [[nodiscard]] std::int64_t bytes() const { return bytes_; }

 private:
  std::vector<float*> arrays_;
  std::int64_t bytes_;
  double sum_ = 0;
};

/// Bytes a second of a call of `loop` that moves `arrays` times the traffic's bytes.
[[nodiscard]] std::vector<double> bandwidth(const Traffic& traffic, int arrays,
                                            const std::function<void()>& loop, int repetitions);

/// Multiply-adds in registers alone, on all threads of the pool: FLOP/s.
[[nodiscard]] double multiply_add_peak();

/// One way of a cache line between the first two cores, in seconds; 0 on a single core.
[[nodiscard]] double ping_pong_seconds();

}  // namespace quadrille::internal
