// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Scalars in float64 that remember how they were made, so that a reference needs only its forward
// pass written down: gradients follow by the chain rule over the tape, with no formula in common
// with the code under test.

#include <cmath>
#include <cstddef>
#include <vector>

namespace quadrille::testing {

class Tape;

struct Number {
  Tape* tape = nullptr;
  std::size_t index = 0;
  [[nodiscard]] double value() const;
};

class Tape {
 public:
  Number constant(double value) { return record(value, {}, {}); }

  struct Parent {
    std::size_t index = 0;
    double derivative = 0;
  };
  Number record(double value, Parent a, Parent b) {
    nodes_.push_back({value, a, b});
    return {this, nodes_.size() - 1};
  }
  [[nodiscard]] double value(std::size_t index) const { return nodes_[index].value; }

  /// d(result)/d(node) of every node.
  [[nodiscard]] std::vector<double> gradients(Number result) const {
    std::vector<double> gradient(nodes_.size(), 0.0);
    gradient[result.index] = 1;
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      gradient[nodes_[i].a.index] += gradient[i] * nodes_[i].a.derivative;
      gradient[nodes_[i].b.index] += gradient[i] * nodes_[i].b.derivative;
    }
    return gradient;
  }

 private:
  struct Node {
    double value = 0;
    Parent a;
    Parent b;
  };
  std::vector<Node> nodes_;
};

inline double Number::value() const { return tape->value(index); }

inline Number operator+(Number a, Number b) {
  return a.tape->record(a.value() + b.value(), {a.index, 1}, {b.index, 1});
}
inline Number operator-(Number a, Number b) {
  return a.tape->record(a.value() - b.value(), {a.index, 1}, {b.index, -1});
}
inline Number operator*(Number a, Number b) {
  return a.tape->record(a.value() * b.value(), {a.index, b.value()}, {b.index, a.value()});
}
inline Number operator/(Number a, Number b) {
  const double y = a.value() / b.value();
  return a.tape->record(y, {a.index, 1 / b.value()}, {b.index, -y / b.value()});
}
inline Number operator*(Number a, double b) {
  return a.tape->record(a.value() * b, {a.index, b}, {});
}
inline Number operator+(Number a, double b) {
  return a.tape->record(a.value() + b, {a.index, 1}, {});
}
inline Number exp(Number a) {
  const double y = std::exp(a.value());
  return a.tape->record(y, {a.index, y}, {});
}
inline Number log(Number a) {
  return a.tape->record(std::log(a.value()), {a.index, 1 / a.value()}, {});
}
inline Number tanh(Number a) {
  const double y = std::tanh(a.value());
  return a.tape->record(y, {a.index, 1 - y * y}, {});
}
inline Number sqrt(Number a) {
  const double y = std::sqrt(a.value());
  return a.tape->record(y, {a.index, 0.5 / y}, {});
}

}  // namespace quadrille::testing
