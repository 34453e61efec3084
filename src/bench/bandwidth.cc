// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "bench/limits.h"
#include "bench/products.h"

namespace quadrille::internal {

std::vector<double> bandwidth(const Traffic& traffic, int arrays, const std::function<void()>& loop,
                              int repetitions) {
  std::vector<double> rates = time_calls(loop, repetitions);
  for (double& rate : rates) rate = arrays * static_cast<double>(traffic.bytes()) / rate;
  return rates;
}

}  // namespace quadrille::internal
