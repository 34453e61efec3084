// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/adamw.h"

#include "kernels/fixture.h"

namespace quadrille::test {
namespace {

using AdamW = KernelTest;

/// One element's state in float64.
struct State {
  double p;
  double m;
  double v;
};
State stepped(const State& s, double gradient, const kernels::AdamW& a) {
  const double g = gradient * static_cast<double>(a.gradient_scale);
  const double b1 = a.beta1;
  const double b2 = a.beta2;
  const double rate = a.learning_rate;
  const double m = b1 * s.m + (1 - b1) * g;
  const double v = b2 * s.v + (1 - b2) * g * g;
  const double m_hat = m / (1 - std::pow(b1, static_cast<double>(a.step)));
  const double v_hat = v / (1 - std::pow(b2, static_cast<double>(a.step)));
  const double decay = static_cast<double>(a.weight_decay) * s.p;
  return {s.p - rate * (m_hat / (std::sqrt(v_hat) + static_cast<double>(a.epsilon)) + decay), m, v};
}

TEST_F(AdamW, FollowsFloat64OverManySteps) {
  for (const std::int64_t count : {1, 7, 129, 8192 + 11}) {
    const auto start = random({count});
    for_each_instruction_set([&] {
      const auto parameter = empty({count});
      parameter->set(start->get<float>());
      const auto m = empty({count});
      const auto v = empty({count});
      kernels::AdamW arguments{.parameter = *parameter,
                               .gradient = {},
                               .first_moment = *m,
                               .second_moment = *v,
                               .gradient_scale = 0.25F,
                               .learning_rate = 1e-2F,
                               .beta1 = 0.9F,
                               .beta2 = 0.95F,
                               .weight_decay = 0.1F};
      std::vector<State> states;
      for (const double p : parameter->numbers()) states.push_back({p, 0, 0});
      for (arguments.step = 1; arguments.step <= 10; ++arguments.step) {
        const auto gradient = random({count});
        arguments.gradient = *gradient;
        kernels::adamw(*stream_, arguments);
        const Numbers g = gradient->numbers();
        for (std::size_t i = 0; i < states.size(); ++i) {
          states[i] = stepped(states[i], g[i], arguments);
        }
      }
      Numbers p;
      Numbers first;
      Numbers second;
      for (const State& state : states) {
        p.push_back(state.p);
        first.push_back(state.m);
        second.push_back(state.v);
      }
      expect_close(parameter->numbers(), p, 2e-6, "parameter");
      expect_close(m->numbers(), first, 2e-6, "first moment");
      expect_close(v->numbers(), second, 2e-6, "second moment");
    });
  }
}

TEST_F(AdamW, MovesEveryParameterByTheRateInItsFirstStep) {
  // After bias correction the first step is rate * sign(gradient), whatever the gradient's size.
  const auto parameter = empty({3});
  const auto gradient = empty({3});
  gradient->set(std::vector<float>{1e-3F, -5, 700});
  const auto m = empty({3});
  const auto v = empty({3});
  kernels::adamw(*stream_, {.parameter = *parameter,
                            .gradient = *gradient,
                            .first_moment = *m,
                            .second_moment = *v,
                            .learning_rate = 0.5F,
                            .step = 1});
  expect_close(parameter->numbers(), {-0.5, 0.5, -0.5}, 2e-5, "parameter");
}

TEST_F(AdamW, PassesNanOn) {
  for_each_instruction_set([&] {
    const auto parameter = random({20});
    const auto gradient = random({20});
    auto values = gradient->get<float>();
    values[3] = std::nanf("");
    gradient->set(values);
    const auto m = empty({20});
    const auto v = empty({20});
    kernels::adamw(*stream_, {.parameter = *parameter,
                              .gradient = *gradient,
                              .first_moment = *m,
                              .second_moment = *v,
                              .learning_rate = 0.5F});
    const auto result = parameter->get<float>();
    EXPECT_TRUE(std::isnan(result[3]));
    EXPECT_TRUE(std::isfinite(result[2]));
  });
}

}  // namespace
}  // namespace quadrille::test
