// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "infer/token_draw.h"

#include <algorithm>
#include <bit>

namespace quadrille::internal {
namespace {

/// Numbers from 0 to 1 by exponent and the first four digits after it: a bucket's weights differ by
/// a sixteenth at most.
constexpr int kBucketShift = 19;
constexpr std::size_t kBuckets = (std::bit_cast<std::uint32_t>(1.0F) >> kBucketShift) + 1;

std::size_t bucket_of(float weight) { return std::bit_cast<std::uint32_t>(weight) >> kBucketShift; }

float at(std::span<const float> weights, std::int32_t id) {
  return weights[static_cast<std::size_t>(id)];
}

}  // namespace

std::int32_t walk(std::span<const float> weights, double target) {
  double sum = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    sum += double{weights[i]};
    if (sum > target) return static_cast<std::int32_t>(i);
  }
  return -1;
}

void CutDraw::count(std::span<const float> weights) {
  counts_.assign(kBuckets, 0);
  masses_.assign(kBuckets, 0.0);
  for (const float weight : weights) {
    const std::size_t bucket = bucket_of(weight);
    ++counts_[bucket];
    masses_[bucket] += double{weight};
  }
}

void CutDraw::sort_edge(std::span<const float> weights) {
  std::sort(edge_ids_.begin(), edge_ids_.end(), [&](std::int32_t a, std::int32_t b) {
    return at(weights, a) != at(weights, b) ? at(weights, a) > at(weights, b) : a < b;
  });
}

void CutDraw::keep_largest(std::span<const float> weights, std::int64_t wanted) {
  std::int64_t above = 0;
  edge_ = kBuckets - 1;
  while (edge_ > 0 && above + counts_[edge_] < wanted) above += counts_[edge_--];
  edge_ids_.clear();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (bucket_of(weights[i]) == edge_) edge_ids_.push_back(static_cast<std::int32_t>(i));
  }
  const auto kept = static_cast<std::size_t>(std::max<std::int64_t>(0, wanted - above));
  if (kept >= edge_ids_.size()) return;
  sort_edge(weights);
  edge_ids_.resize(kept);
  masses_[edge_] = 0;
  for (const std::int32_t id : edge_ids_) masses_[edge_] += double{at(weights, id)};
}

double CutDraw::mass() const {
  double sum = 0;
  for (std::size_t bucket = edge_; bucket < kBuckets; ++bucket) sum += masses_[bucket];
  return sum;
}

void CutDraw::keep_part(std::span<const float> weights, double part) {
  const double wanted = part * mass();
  const std::size_t last = edge_;
  double above = 0;
  edge_ = kBuckets - 1;
  while (edge_ > last && above + masses_[edge_] < wanted) above += masses_[edge_--];
  if (edge_ > last) {
    edge_ids_.clear();
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (bucket_of(weights[i]) == edge_) edge_ids_.push_back(static_cast<std::int32_t>(i));
    }
  }
  sort_edge(weights);
  double sum = above;
  std::size_t kept = 0;
  while (kept < edge_ids_.size() && (kept == 0 || sum < wanted)) {
    sum += double{at(weights, edge_ids_[kept++])};
  }
  edge_ids_.resize(kept);
  masses_[edge_] = sum - above;
}

std::int32_t CutDraw::draw(std::span<const float> weights, const SamplingOptions& options,
                           double draw) {
  count(weights);
  const auto all = static_cast<std::int64_t>(weights.size());
  keep_largest(weights, options.top_k > 0 ? std::min(options.top_k, all) : all);
  if (options.top_p < 1) keep_part(weights, options.top_p);
  // The kept ids side by side in the order of ids.
  std::sort(edge_ids_.begin(), edge_ids_.end());
  const double target = draw * mass();
  double sum = 0;
  std::size_t next = 0;  // of the edge
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const bool at_edge = next < edge_ids_.size() && edge_ids_[next] == static_cast<std::int32_t>(i);
    if (at_edge) ++next;
    if (!at_edge && bucket_of(weights[i]) <= edge_) continue;
    sum += double{weights[i]};
    if (sum > target) return static_cast<std::int32_t>(i);
  }
  return -1;
}

}  // namespace quadrille::internal
