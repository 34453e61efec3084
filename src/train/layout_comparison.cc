// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/layout_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

namespace quadrille::internal {
namespace {

double norm_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += double{value} * double{value};
  return std::sqrt(sum);
}

double distance(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = double{a[i]} - double{b[i]};
    sum += difference * difference;
  }
  return std::sqrt(sum);
}

/// Also where one of them is no number.
bool close(double a, double b, double relative) {
  return std::abs(a - b) <= relative * std::max(std::abs(a), std::abs(b));
}

/// Of all tensors of each kind in a step.
std::array<double, 3> norms_of(const TracedStep& step) {
  std::array<double, 3> squares{};
  for (const TracedTensor& tensor : step.tensors) {
    const double norm = norm_of(tensor.values);
    squares[static_cast<std::size_t>(tensor.phase)] += norm * norm;
  }
  for (double& square : squares) square = std::sqrt(square);
  return squares;
}

/// Elements that differ most: enough of them to see where they lie.
std::vector<std::size_t> worst_elements(const TracedTensor& a, const TracedTensor& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    most = std::max(most, std::abs(double{a.values[i]} - double{b.values[i]}));
  }
  std::vector<std::size_t> worst;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const double difference = std::abs(double{a.values[i]} - double{b.values[i]});
    if (!(difference < most / 10)) worst.push_back(i);
  }
  return worst;
}

/// Whether all of `elements` are of one shard of several.
bool in_one_shard(const TracedTensor& tensor, const std::vector<std::size_t>& elements,
                  int degree) {
  if (degree == 1 || !tensor.tensor.is_sharded()) return false;
  for (int index = 0; index < degree; ++index) {
    std::vector<char> own(tensor.values.size());
    TensorPiece::of(tensor.shape, tensor.tensor, index, degree)
        .for_each_run([&](std::int64_t first, std::int64_t, std::int64_t length) {
          std::fill_n(own.begin() + first, length, 1);
        });
    if (std::all_of(elements.begin(), elements.end(), [&own](auto i) { return own[i] != 0; })) {
      return true;
    }
  }
  return false;
}

/// Whether all of `elements` are of the sequences of one data-parallel rank of several.
bool in_one_batch(const TracedTensor& tensor, const std::vector<std::size_t>& elements,
                  std::int64_t degree) {
  if (degree == 1 || tensor.phase != TracePhase::kActivation) return false;
  const auto share = tensor.values.size() / static_cast<std::size_t>(degree);
  const std::size_t first = elements.front() / share;
  return std::all_of(elements.begin(), elements.end(), [=](auto i) { return i / share == first; });
}

/// The axis to look at first, and why.
std::string likely_axis(const TracedTensor& a, const TracedTensor& b, const ParallelSpec& layout_a,
                        const ParallelSpec& layout_b) {
  std::vector<std::string> differing;
  if (layout_a.data != layout_b.data) differing.emplace_back("data");
  if (layout_a.tensor != layout_b.tensor) differing.emplace_back("tensor");
  if (layout_a.sequence != layout_b.sequence) differing.emplace_back("tensor (sequence)");
  if (layout_a.sharding != layout_b.sharding) differing.emplace_back("data (sharding)");
  if (differing.size() == 1) return differing.front() + ", the only one in which they differ";
  const std::vector<std::size_t> worst = worst_elements(a, b);
  if (in_one_shard(a, worst, static_cast<int>(layout_a.tensor)) ||
      in_one_shard(b, worst, static_cast<int>(layout_b.tensor))) {
    return "tensor: the worst elements are all of one rank's part";
  }
  if (in_one_batch(a, worst, layout_a.data) || in_one_batch(b, worst, layout_b.data)) {
    return "data: the worst elements are all of one rank's sequences";
  }
  if (differing.empty()) return "none: the layouts are the same";
  std::string all;
  for (const std::string& axis : differing) all += (all.empty() ? "" : " or ") + axis;
  return all;
}

using Key = std::tuple<TracePhase, std::int64_t, std::string>;

std::string tensor_difference(const TracedTensor& a, const TracedTensor& b, double relative) {
  std::size_t worst = 0;
  for (std::size_t i = 0; i < a.values.size(); ++i) {
    const auto gap = [&](std::size_t at) {
      return std::abs(double{a.values[at]} - double{b.values[at]});
    };
    if (!(gap(i) <= gap(worst))) worst = i;
  }
  return fmt::format("{} {} of layer {}: {:.8g} and {:.8g} at element {}, by norm {:.2g} apart",
                     kTracePhaseText.text(a.phase), a.name, a.layer, a.values[worst],
                     b.values[worst], worst, relative);
}

}  // namespace

namespace {

using TensorsByKey = std::map<Key, const TracedTensor*>;

TensorsByKey by_key(const TracedStep& step) {
  TensorsByKey all;
  for (const TracedTensor& tensor : step.tensors) {
    all[{tensor.phase, tensor.layer, tensor.name}] = &tensor;
  }
  return all;
}

std::optional<std::string> figure_difference(const char* name, double a, double b,
                                             const Tolerance& tolerance) {
  if (close(a, b, tolerance.figure)) return std::nullopt;
  return fmt::format("{}: {:.8g} and {:.8g}", name, a, b);
}

/// Compares one step of each.
class StepComparison {
 public:
  StepComparison(const TracedStep& a, const TracedStep& b, const Tolerance& tolerance)
      : a_(a), b_(b), others_(by_key(b)), norms_(norms_of(a)), tolerance_(tolerance) {}

  std::optional<std::string> first_difference(const ParallelSpec& layout_a,
                                              const ParallelSpec& layout_b) const {
    bool had_loss = false;
    for (const TracedTensor& tensor : a_.tensors) {
      if (!had_loss && tensor.phase != TracePhase::kActivation) {
        had_loss = true;
        if (auto found = figure_difference("loss", a_.loss, b_.loss, tolerance_)) return found;
      }
      const TracedTensor& other = *others_.at({tensor.phase, tensor.layer, tensor.name});
      QD_CHECK(other.values.size() == tensor.values.size());
      const double apart = distance(tensor.values, other.values);
      if (apart <= most_apart(tensor)) continue;
      return tensor_difference(tensor, other, apart / norm_of(tensor.values)) +
             "; likely axis: " + likely_axis(tensor, other, layout_a, layout_b);
    }
    return figure_difference("gradient norm before clipping", a_.gradient_norm, b_.gradient_norm,
                             tolerance_);
  }

 private:
  [[nodiscard]] double most_apart(const TracedTensor& tensor) const {
    return std::max(tolerance_.tensor * norm_of(tensor.values),
                    tolerance_.floor * norms_[static_cast<std::size_t>(tensor.phase)]);
  }

  const TracedStep& a_;
  const TracedStep& b_;
  TensorsByKey others_;
  std::array<double, 3> norms_;
  Tolerance tolerance_;
};

}  // namespace

std::optional<std::string> first_difference(std::span<const TracedStep> a,
                                            std::span<const TracedStep> b,
                                            const ParallelSpec& layout_a,
                                            const ParallelSpec& layout_b,
                                            const Tolerance& tolerance) {
  QD_CHECK(a.size() == b.size());
  for (std::size_t step = 0; step < a.size(); ++step) {
    const StepComparison comparison(a[step], b[step], tolerance);
    if (const auto found = comparison.first_difference(layout_a, layout_b)) {
      return fmt::format("step {}, {}", step + 1, *found);
    }
  }
  return std::nullopt;
}

}  // namespace quadrille::internal
