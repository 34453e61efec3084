// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/comm/gradient_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "quadrille/base/check.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille {
namespace {

constexpr std::int64_t kAlignedElements = 64 / sizeof(float);

std::int64_t aligned(std::int64_t elements) {
  return (elements + kAlignedElements - 1) / kAlignedElements * kAlignedElements;
}

enum class BucketLife : std::uint8_t { kFilling, kReady, kInFlight, kDone };

struct Entry {
  GradientEntry declared;
  int bucket = 0;
  std::int64_t first = 0;  ///< Element in the whole lease.
  std::int64_t arrived = 0;
};

struct Bucket {
  std::int64_t first = 0;
  std::int64_t length = 0;
  std::int64_t missing = 0;  ///< Contributions of all its entries.
  BucketLife life = BucketLife::kDone;
};

}  // namespace

struct GradientBuckets::State {
  GradientBucketOptions options;
  std::vector<Entry> entries;
  std::vector<Bucket> buckets;
  std::int64_t elements = 0;
  std::int64_t micro_batches = 0;
  std::size_t next = 0;  ///< The first bucket that is not done: ranks reduce in one order.
  bool in_step = false;
  Lease lease;

  void lay_out(std::span<const GradientEntry> declared);
  [[nodiscard]] TensorView view(std::int64_t first, Shape shape) const;
  [[nodiscard]] std::int64_t expected(const Entry& entry) const {
    return entry.declared.contributions * micro_batches;
  }
  [[nodiscard]] Result<void> reduce_ready();
};

/// Entries fill a bucket up to its size; one that is larger has a bucket of its own. Every gradient
/// starts at 64 bytes, so the pads between them are zeros that a norm may read.
void GradientBuckets::State::lay_out(std::span<const GradientEntry> declared) {
  const std::int64_t most =
      std::max<std::int64_t>(options.bucket.count() / static_cast<std::int64_t>(sizeof(float)), 1);
  for (const GradientEntry& entry : declared) {
    const std::int64_t length = aligned(entry.shape.elements());
    if (buckets.empty() || buckets.back().length + length > most) {
      buckets.push_back(Bucket{elements, 0, 0, BucketLife::kDone});
    }
    entries.push_back(Entry{entry, static_cast<int>(buckets.size()) - 1, elements, 0});
    buckets.back().length += length;
    elements += length;
  }
}

TensorView GradientBuckets::State::view(std::int64_t first, Shape shape) const {
  return lease.view_at(Bytes(first * static_cast<std::int64_t>(sizeof(float))), DType::kF32, shape);
}

Result<void> GradientBuckets::State::reduce_ready() {
  for (; next < buckets.size() && buckets[next].life == BucketLife::kReady; ++next) {
    Bucket& bucket = buckets[next];
    bucket.life = BucketLife::kInFlight;
    if (options.group->size() > 1) {
      CollectiveScope scope = options.group->open(fmt::format("gradient bucket {}", next));
      QD_RETURN_IF_ERROR(options.group->all_reduce(scope, *options.stream,
                                                   view(bucket.first, Shape{bucket.length})));
    }
    bucket.life = BucketLife::kDone;
  }
  return {};
}

GradientBuckets::GradientBuckets(std::unique_ptr<State> state) : state_(std::move(state)) {}
GradientBuckets::~GradientBuckets() = default;

Result<std::unique_ptr<GradientBuckets>> GradientBuckets::create(
    const GradientBucketOptions& options, std::span<const GradientEntry> entries) {
  QD_CHECK(options.group != nullptr && options.stream != nullptr && options.pool != nullptr);
  for (const GradientEntry& entry : entries) {
    if (entry.contributions >= 1) continue;
    return fail(Code::kInvalid, fmt::format("gradient \"{}\" declares {} contributions", entry.name,
                                            entry.contributions));
  }
  auto state = std::make_unique<State>();
  state->options = options;
  state->lay_out(entries);
  const Bytes bytes = Bytes(state->elements) * static_cast<std::int64_t>(sizeof(float));
  QD_ASSIGN_OR_RETURN(state->lease, options.group->lease(*options.pool, bytes, MemoryTag::kGradient,
                                                         "gradient buckets"));
  return std::unique_ptr<GradientBuckets>(new GradientBuckets(std::move(state)));
}

int GradientBuckets::entries() const { return static_cast<int>(state_->entries.size()); }
int GradientBuckets::buckets() const { return static_cast<int>(state_->buckets.size()); }

TensorView GradientBuckets::gradient(int index) const {
  QD_CHECK(index >= 0 && index < entries());
  const Entry& entry = state_->entries[static_cast<std::size_t>(index)];
  return state_->view(entry.first, entry.declared.shape);
}

std::vector<TensorView> GradientBuckets::flat() const {
  std::vector<TensorView> views;
  for (const Bucket& bucket : state_->buckets) {
    views.push_back(state_->view(bucket.first, Shape{bucket.length}));
  }
  return views;
}

void GradientBuckets::begin_step(std::int64_t micro_batches) {
  QD_CHECK(micro_batches >= 1);
  State& state = *state_;
  state.micro_batches = micro_batches;
  state.next = 0;
  state.in_step = true;
  for (Bucket& bucket : state.buckets) {
    bucket.missing = 0;
    bucket.life = BucketLife::kFilling;
    const TensorView whole = state.view(bucket.first, Shape{bucket.length});
    if (!whole.empty()) kernels::fill(*state.options.stream, whole, 0.0F);
  }
  for (Entry& entry : state.entries) {
    entry.arrived = 0;
    state.buckets[static_cast<std::size_t>(entry.bucket)].missing += state.expected(entry);
  }
}

Result<void> GradientBuckets::contribute(int index) {
  QD_CHECK(index >= 0 && index < entries());
  State& state = *state_;
  Entry& entry = state.entries[static_cast<std::size_t>(index)];
  if (!state.in_step) {
    return fail(Code::kInternal, fmt::format("gradient \"{}\" got a contribution outside a step",
                                             entry.declared.name));
  }
  if (entry.arrived == state.expected(entry)) {
    return fail(Code::kInternal,
                fmt::format("gradient \"{}\" got contribution {} of {} declared ({} in each of {} "
                            "micro-batches)",
                            entry.declared.name, entry.arrived + 1, state.expected(entry),
                            entry.declared.contributions, state.micro_batches));
  }
  ++entry.arrived;
  Bucket& bucket = state.buckets[static_cast<std::size_t>(entry.bucket)];
  QD_CHECK(bucket.life == BucketLife::kFilling);
  if (--bucket.missing > 0) return {};
  bucket.life = BucketLife::kReady;
  return state.reduce_ready();
}

Result<void> GradientBuckets::finish() {
  State& state = *state_;
  std::string late;
  for (const Entry& entry : state.entries) {
    if (entry.arrived == state.expected(entry)) continue;
    late += fmt::format("{}\"{}\" ({} of {} contributions)", late.empty() ? "" : ", ",
                        entry.declared.name, entry.arrived, state.expected(entry));
  }
  if (!state.in_step) return fail(Code::kInternal, "gradients are finished outside a step");
  state.in_step = false;
  if (!late.empty()) return fail(Code::kInternal, "gradients never became ready: " + late);
  for (const Bucket& bucket : state.buckets) QD_CHECK(bucket.life == BucketLife::kDone);
  return {};
}

}  // namespace quadrille
