// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0

// Collects what ran in a rank's steps.

#include <sys/resource.h>

#include <algorithm>
#include <utility>

#include "quadrille/base/check.h"
#include "quadrille/observe/profile.h"

namespace quadrille {
namespace {

std::string key_text(std::string_view name, const std::array<std::int64_t, 4>& extents,
                     std::string_view variant) {
  std::string text(name);
  for (std::size_t i = 0; i < extents.size() && extents[i] != 0; ++i) {
    text += (i == 0 ? " " : "x") + std::to_string(extents[i]);
  }
  if (!variant.empty() && variant != kCollectiveVariant) text.append(" ").append(variant);
  return text;
}

void sort_by_seconds(std::vector<OperationProfile>& operations) {
  std::stable_sort(operations.begin(), operations.end(),
                   [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
}

}  // namespace

std::string key_of(const Operation& operation) {
  return key_text(operation.name, operation.extents, operation.variant);
}

std::string OperationProfile::key() const { return key_text(name, extents, variant); }

Seconds StepsProfile::between() const {
  Seconds rest = seconds;
  for (const OperationProfile& operation : operations) rest = rest - operation.seconds;
  return rest;
}

StepsProfile merge(std::span<const StepsProfile> ranks) {
  QD_CHECK(!ranks.empty());
  const double share = 1.0 / static_cast<double>(ranks.size());
  StepsProfile all;
  all.steps = ranks.front().steps;
  all.threads = ranks.front().threads;
  all.ranks = static_cast<int>(ranks.size());
  std::map<std::string, OperationProfile> operations;
  for (const StepsProfile& rank : ranks) {
    all.seconds += rank.seconds * share;
    all.page_faults += rank.page_faults * share;
    all.leases += rank.leases * share;
    for (const OperationProfile& operation : rank.operations) {
      const auto [place, is_new] = operations.try_emplace(operation.key(), operation);
      OperationProfile& sum = place->second;
      if (is_new) {
        sum.seconds = Seconds();
        sum.flops = Flops();
        sum.bytes = 0;
      } else {
        sum.calls = std::max(sum.calls, operation.calls);
      }
      sum.seconds += operation.seconds * share;
      sum.flops += operation.flops * share;
      sum.bytes += operation.bytes * share;
    }
  }
  for (auto& [key, operation] : operations) all.operations.push_back(std::move(operation));
  sort_by_seconds(all.operations);
  return all;
}

std::int64_t page_faults() {
  rusage usage{};
  QD_CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
  return usage.ru_minflt;
}

bool Profiler::is_traced() const {
  return begun_ > options_.skipped_steps &&
         begun_ <= options_.skipped_steps + options_.traced_steps;
}

void Profiler::begin_step(std::int64_t step, std::int64_t leases_made) {
  const std::lock_guard lock(mutex_);
  ++begun_;
  step_ = step;
  in_step_ = true;
  leases_at_begin_ = leases_made;
  since_collective_.clear();
  faults_at_begin_ = page_faults();
  step_begin_ = monotonic_now();
}

void Profiler::end_step(std::int64_t leases_made) {
  const std::lock_guard lock(mutex_);
  if (!in_step_) return;
  const Seconds end = monotonic_now();
  in_step_ = false;
  if (begun_ > options_.skipped_steps) {
    ++sums_.steps;
    sums_.seconds += end - step_begin_;
    sums_.page_faults += static_cast<double>(page_faults() - faults_at_begin_);
    sums_.leases += static_cast<double>(leases_made - leases_at_begin_);
  }
  if (is_traced()) {
    spans_.push_back(
        {SpanKind::kStep, "step " + std::to_string(step_), step_begin_, end, Flops(), Bytes()});
  }
}

Seconds Profiler::inside(Seconds begin) const {
  Seconds sum;
  for (auto span = since_collective_.rbegin(); span != since_collective_.rend(); ++span) {
    if (span->first < begin) break;
    sum += span->second;
  }
  return sum;
}

void Profiler::ran(const OperationSpan& span) {
  const std::lock_guard lock(mutex_);
  const Operation& operation = span.operation;
  const bool is_collective = operation.variant == kCollectiveVariant;
  Seconds length = span.end - span.begin;
  if (is_traced()) {
    spans_.push_back({is_collective ? SpanKind::kCollective : SpanKind::kOperation,
                      key_of(operation), span.begin, span.end, Flops(operation.flops), span.moved});
  }
  if (!in_step_ || begun_ <= options_.skipped_steps) return;
  if (is_collective) {
    length = length - inside(span.begin);
    since_collective_.clear();
  } else {
    since_collective_.emplace_back(span.begin, length);
  }
  OperationProfile& sum = operations_[Key(operation.name, operation.extents, operation.variant)];
  ++sum.calls;
  sum.seconds += length;
  sum.flops += Flops(operation.flops);
  sum.bytes += static_cast<double>(span.moved.count());
}

void Profiler::add(SpanKind kind, std::string name, Seconds begin, Seconds end) {
  const std::lock_guard lock(mutex_);
  if (is_traced()) spans_.push_back({kind, std::move(name), begin, end, Flops(), Bytes()});
}

StepsProfile Profiler::profile() const {
  const std::lock_guard lock(mutex_);
  StepsProfile profile = sums_;
  profile.threads = options_.threads;
  for (const auto& [key, sum] : operations_) {
    OperationProfile operation = sum;
    operation.name = std::get<0>(key);
    operation.extents = std::get<1>(key);
    operation.variant = std::get<2>(key);
    profile.operations.push_back(std::move(operation));
  }
  sort_by_seconds(profile.operations);
  return profile;
}

RankTrace Profiler::trace() const {
  const std::lock_guard lock(mutex_);
  return {options_.rank, clock_name(), spans_};
}

}  // namespace quadrille
