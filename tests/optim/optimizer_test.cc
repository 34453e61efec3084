// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/optim/optimizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "support/guarded_device.h"

namespace quadrille {
namespace {

using ::testing::HasSubstr;
using Values = std::vector<float>;

/// Plain AdamW in float64 of one tensor, as the header of the kernel writes it down.
struct ReferenceTensor {
  std::vector<double> value, first, second;
  bool decayed = false;

  void update(const TrainingSpec& spec, const OptimizerStep& step,
              const std::vector<double>& mean) {
    const double c1 = 1 - std::pow(spec.beta1, static_cast<double>(step.step));
    const double c2 = 1 - std::pow(spec.beta2, static_cast<double>(step.step));
    for (std::size_t i = 0; i < value.size(); ++i) {
      first[i] = spec.beta1 * first[i] + (1 - spec.beta1) * mean[i];
      second[i] = spec.beta2 * second[i] + (1 - spec.beta2) * mean[i] * mean[i];
      const double direction = first[i] / c1 / (std::sqrt(second[i] / c2) + spec.epsilon);
      const double decay = decayed ? spec.weight_decay * value[i] : 0;
      value[i] -= step.learning_rate * (direction + decay);
    }
  }
};

/// Three tensors of odd sizes on a device whose memory the host cannot touch.
class Optimizer : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::vector<Shape> shapes = {{7, 13}, {1}, {3, 5, 11}};
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      const Bytes bytes(shapes[i].elements() * 4);
      leases_.push_back(pool_->lease(bytes, MemoryTag::kParameter, "value").value());
      leases_.push_back(pool_->lease(bytes, MemoryTag::kGradient, "gradient").value());
      tensors_.push_back({.name = "tensor" + std::to_string(i),
                          .value = leases_[2 * i].view(DType::kF32, shapes[i]),
                          .gradient = leases_[2 * i + 1].view(DType::kF32, shapes[i]),
                          .decayed = i != 1});
      write(tensors_[i].value, random_values(shapes[i].elements(), 1.0));
    }
  }

  void TearDown() override { ASSERT_TRUE(stream_->synchronize().has_value()); }

  Values random_values(std::int64_t count, double deviation) {
    std::normal_distribution<double> normal(0, deviation);
    Values values(static_cast<std::size_t>(count));
    for (float& value : values) value = static_cast<float>(normal(random_));
    return values;
  }
  void write(const TensorView& view, const Values& values) {
    write_all<float>(*stream_, view, values);
  }
  Values read(const TensorView& view) { return read_all<float>(*stream_, view).value(); }
  void fill_gradients(double deviation) {
    for (const auto& tensor : tensors_) {
      write(tensor.gradient, random_values(tensor.gradient.elements(), deviation));
    }
  }
  std::unique_ptr<AdamWOptimizer> make() {
    return AdamWOptimizer::create(spec_, *stream_, *pool_, tensors_).value();
  }
  /// Norm of the gradients over `tokens`, in float64.
  double mean_norm(double tokens) {
    double squares = 0;
    for (const auto& tensor : tensors_) {
      for (const float g : read(tensor.gradient)) squares += double{g} * double{g};
    }
    return std::sqrt(squares) / tokens;
  }

  std::mt19937_64 random_{std::random_device{}()};
  TrainingSpec spec_;
  std::unique_ptr<Device> device_ = testing::make_guarded_device();
  std::unique_ptr<Stream> stream_ = device_->make_stream();
  std::unique_ptr<Pool> pool_ = Pool::create({device_.get(), Bytes(0), "test"}).value();
  std::vector<Lease> leases_;
  std::vector<OptimizedTensor> tensors_;
};

TEST_F(Optimizer, MatchesFloat64AdamWOverSeveralStepsWithAndWithoutClipping) {
  spec_.clip = 2.0;
  const auto optimizer = make();
  std::vector<ReferenceTensor> reference;
  for (const auto& tensor : tensors_) {
    const Values values = read(tensor.value);
    const std::vector<double> zeros(values.size(), 0.0);
    reference.push_back({{values.begin(), values.end()}, zeros, zeros, tensor.decayed});
  }
  int clipped = 0;
  for (std::int64_t number = 1; number <= 6; ++number) {
    fill_gradients(number % 2 == 0 ? 100 : 1);  // even steps exceed the clip norm
    const OptimizerStep step = {.step = number, .tokens = 40, .learning_rate = 0.01};
    const OptimizerOutcome outcome = optimizer->step(step).value();
    const double norm = mean_norm(40);
    const double coefficient = norm > spec_.clip ? spec_.clip / norm : 1;
    EXPECT_NEAR(outcome.gradient_norm / norm, 1, 1e-12);
    EXPECT_NEAR(outcome.clip_coefficient / coefficient, 1, 1e-12);
    clipped += coefficient < 1 ? 1 : 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      std::vector<double> mean;
      for (const float g : read(tensors_[i].gradient)) mean.push_back(coefficient * g / 40);
      reference[i].update(spec_, step, mean);
    }
  }
  EXPECT_EQ(clipped, 3);
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Values value = read(tensors_[i].value);
    const Values first = read(optimizer->first_moment(static_cast<int>(i)));
    const Values second = read(optimizer->second_moment(static_cast<int>(i)));
    for (std::size_t e = 0; e < value.size(); ++e) {
      EXPECT_NEAR(value[e], reference[i].value[e], 2e-6 * (1 + std::abs(reference[i].value[e])));
      EXPECT_NEAR(first[e], reference[i].first[e], 1e-6);
      EXPECT_NEAR(second[e], reference[i].second[e], 1e-6);
    }
  }
}

TEST_F(Optimizer, ClipOfZeroLeavesAnyNormAlone) {
  spec_.clip = 0;
  const auto optimizer = make();
  fill_gradients(1e6);
  const auto outcome = optimizer->step({.step = 1, .tokens = 1, .learning_rate = 1e-3}).value();
  EXPECT_GT(outcome.gradient_norm, 1e6);
  EXPECT_EQ(outcome.clip_coefficient, 1);
}

TEST_F(Optimizer, NormSurvivesGradientsWhoseSquaresLeaveFloat32) {
  const auto optimizer = make();
  fill_gradients(1e30);
  const auto outcome = optimizer->step({.step = 1, .tokens = 1, .learning_rate = 1e-3}).value();
  EXPECT_NEAR(outcome.gradient_norm / mean_norm(1), 1, 1e-12);
  for (const float value : read(tensors_[0].value)) EXPECT_TRUE(std::isfinite(value));
}

TEST_F(Optimizer, ANonFiniteGradientNamesItsTensorAndChangesNothing) {
  const auto optimizer = make();
  fill_gradients(1);
  ASSERT_TRUE(optimizer->step({.step = 1, .tokens = 8, .learning_rate = 0.1}).has_value());
  std::vector<Values> before;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    before.push_back(read(tensors_[i].value));
    before.push_back(read(optimizer->first_moment(static_cast<int>(i))));
    before.push_back(read(optimizer->second_moment(static_cast<int>(i))));
  }
  Values bad = read(tensors_[2].gradient);
  bad[17] = std::numeric_limits<float>::infinity();
  bad[90] = std::numeric_limits<float>::quiet_NaN();
  write(tensors_[2].gradient, bad);
  const auto outcome = optimizer->step({.step = 2, .tokens = 8, .learning_rate = 0.1});
  ASSERT_FALSE(outcome.has_value());
  EXPECT_EQ(outcome.error().code, Code::kInvalid);
  EXPECT_THAT(outcome.error().message, HasSubstr("tensor2"));
  EXPECT_THAT(outcome.error().message, HasSubstr("2 of 165"));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    EXPECT_EQ(read(tensors_[i].value), before[3 * i]);
    EXPECT_EQ(read(optimizer->first_moment(static_cast<int>(i))), before[3 * i + 1]);
    EXPECT_EQ(read(optimizer->second_moment(static_cast<int>(i))), before[3 * i + 2]);
  }
}

TEST_F(Optimizer, MomentsStartAtZeroInTheirTensorsShapesAndAreCountedByTag) {
  const auto optimizer = make();
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    for (const TensorView& moment : {optimizer->first_moment(static_cast<int>(i)),
                                     optimizer->second_moment(static_cast<int>(i))}) {
      EXPECT_EQ(moment.shape(), tensors_[i].value.shape());
      EXPECT_THAT(read(moment), ::testing::Each(0.0F));
      bytes += (moment.bytes().count() + 63) / 64 * 64;
    }
  }
  EXPECT_EQ(pool_->leased(MemoryTag::kOptimizer), Bytes(bytes));
}

TEST_F(Optimizer, SaysWhatDidNotFitThePool) {
  const auto small = Pool::create({device_.get(), Bytes(100), "tiny"}).value();
  const auto optimizer = AdamWOptimizer::create(spec_, *stream_, *small, tensors_);
  ASSERT_FALSE(optimizer.has_value());
  EXPECT_EQ(optimizer.error().code, Code::kExhausted);
  EXPECT_THAT(optimizer.error().message, HasSubstr("moments"));
}

}  // namespace
}  // namespace quadrille
