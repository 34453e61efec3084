// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the kernels' tests share: tensors with fresh random contents, runs under every instruction
// set that the machine has and under one and two threads, and a comparison against float64.

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "quadrille/device/device.h"

namespace quadrille::test {

using Numbers = std::vector<double>;

/// A tensor of its own memory, with a copy of what it holds in float64 for the reference.
class Tensor {
 public:
  Tensor(Stream& stream, DType dtype, Shape shape)
      : stream_(stream), bytes_(shape.elements() * element_bytes(dtype)) {
    auto memory = stream.device().allocate(bytes_);
    QD_CHECK(memory.has_value());
    view_ = TensorView(&stream.device(), *memory, dtype, shape);
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor() {
    QD_CHECK(stream_.synchronize().has_value());
    stream_.device().release(view_.address(), bytes_);
  }

  operator const TensorView&() const { return view_; }  // NOLINT: reads as the view it stands for
  [[nodiscard]] const TensorView& view() const { return view_; }

  template <class T>
  void set(const std::vector<T>& values) {
    write_all<T>(stream_, view_, values);
  }
  template <class T>
  [[nodiscard]] std::vector<T> get() const {
    auto values = read_all<T>(stream_, view_);
    QD_CHECK(values.has_value());
    return *values;
  }
  [[nodiscard]] Numbers numbers() const {
    if (view_.dtype() == DType::kF64) return get<double>();
    const auto values = get<float>();
    return {values.begin(), values.end()};
  }

 private:
  Stream& stream_;
  Bytes bytes_;
  TensorView view_;
};

/// Each test draws new inputs; its seed is part of every failure's text, and QUADRILLE_TEST_SEED
/// repeats it.
class KernelTest : public ::testing::Test {
 protected:
  KernelTest() {
    const char* fixed = std::getenv("QUADRILLE_TEST_SEED");
    seed_ = fixed == nullptr ? std::random_device{}() : std::strtoul(fixed, nullptr, 10);
    generator_.seed(seed_);
    trace_ = std::make_unique<::testing::ScopedTrace>(
        __FILE__, __LINE__, "QUADRILLE_TEST_SEED=" + std::to_string(seed_));
  }

  [[nodiscard]] std::unique_ptr<Tensor> empty(const Shape& shape, DType dtype = DType::kF32) {
    return std::make_unique<Tensor>(*stream_, dtype, shape);
  }
  [[nodiscard]] std::unique_ptr<Tensor> random(const Shape& shape, float deviation = 1) {
    auto tensor = empty(shape);
    std::normal_distribution<float> normal(0, deviation);
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    for (float& value : values) value = normal(generator_);
    tensor->set(values);
    return tensor;
  }
  [[nodiscard]] std::unique_ptr<Tensor> random_ids(const Shape& shape, std::int32_t first,
                                                   std::int32_t last) {
    auto tensor = empty(shape, DType::kI32);
    std::uniform_int_distribution<std::int32_t> uniform(first, last);
    std::vector<std::int32_t> values(static_cast<std::size_t>(shape.elements()));
    for (std::int32_t& value : values) value = uniform(generator_);
    tensor->set(values);
    return tensor;
  }

  std::unique_ptr<Device> device_ = make_host_device();
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  std::mt19937_64 generator_;
  unsigned long seed_ = 0;
  std::unique_ptr<::testing::ScopedTrace> trace_;
};

/// Runs `body` under each instruction set that our kernels are compiled for and this machine has.
template <class Body>
void for_each_instruction_set(const Body& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    body();
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
}

/// What `result` gives with one thread of the pool and with two.
template <class Result>
auto with_one_and_two_threads(const Result& result) {
  const int before = omp_get_max_threads();
  omp_set_num_threads(1);
  auto one = result();
  omp_set_num_threads(2);
  auto two = result();
  omp_set_num_threads(before);
  return std::pair(std::move(one), std::move(two));
}

/// Bit for bit, so that NaN equals itself and -0 differs from 0.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// The largest |actual - expected| relative to the largest |expected|, or to 1 where all are
/// smaller: inputs are of size 1, and where their terms cancel it is their rounding that remains.
inline double relative_error(const Numbers& actual, const Numbers& expected) {
  QD_CHECK(actual.size() == expected.size());
  double scale = 1;
  double error = 0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (!std::isfinite(actual[i])) return HUGE_VAL;
    scale = std::max(scale, std::abs(expected[i]));
    error = std::max(error, std::abs(actual[i] - expected[i]));
  }
  return error / scale;
}
inline void expect_close(const Numbers& actual, const Numbers& expected, double tolerance,
                         const std::string& what) {
  EXPECT_LE(relative_error(actual, expected), tolerance) << what;
}

/// d (sum of weights * f(x)) / dx by central differences of a float64 function.
template <class Function>
Numbers finite_difference(Numbers x, const Numbers& weights, const Function& f) {
  constexpr double kStep = 1e-5;
  const auto weighed = [&] {
    const Numbers y = f(x);
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += weights[i] * y[i];
    return sum;
  };
  Numbers gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double middle = x[i];
    x[i] = middle + kStep;
    const double above = weighed();
    x[i] = middle - kStep;
    const double below = weighed();
    x[i] = middle;
    gradient[i] = (above - below) / (2 * kStep);
  }
  return gradient;
}

}  // namespace quadrille::test
