// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/comm/gradient_buckets.h"

#include <fmt/format.h>

#include <utility>

#include "comm/bucket_memory.h"
#include "quadrille/base/check.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille {
namespace {

enum class BucketLife : std::uint8_t { kFilling, kReady, kInFlight, kDone };

struct Entry {
  GradientEntry declared;
  int bucket = 0;
  std::int64_t first = 0;    ///< Element in the whole.
  std::int64_t arrived = 0;  ///< Contributions of this round.
};

struct Bucket {
  std::int64_t missing = 0;  ///< Contributions of all its entries in this round.
  BucketLife life = BucketLife::kDone;
};

FlatLayout layout_of(std::span<const GradientEntry> entries, const GradientBucketOptions& options) {
  std::vector<FlatTensor> tensors;
  for (const GradientEntry& entry : entries) {
    tensors.push_back({entry.shape.elements(), entry.layer, entry.contributions});
  }
  return FlatLayout(tensors, {options.bucket, options.sharding});
}

}  // namespace

// A round ends with every bucket reduced: a step is one round of all its micro-batches, or one of
// each where buckets share memory.
struct GradientBuckets::State {
  GradientBucketOptions options;
  FlatLayout layout;
  internal::BucketMemory memory;
  std::vector<Entry> entries;
  std::vector<Bucket> buckets;
  std::int64_t micro_batches = 0;
  std::int64_t round = 0;
  std::size_t next = 0;  ///< The first bucket that is not done: ranks reduce in one order.
  bool in_step = false;

  [[nodiscard]] std::int64_t rounds() const { return memory.is_shared() ? micro_batches : 1; }
  [[nodiscard]] std::int64_t expected(const Entry& entry) const {
    return entry.declared.contributions * (memory.is_shared() ? 1 : micro_batches);
  }
  [[nodiscard]] Bucket& bucket(int index) { return buckets[static_cast<std::size_t>(index)]; }
  void begin_round();
  void clear(int bucket);
  void clear(const Entry& entry);
  [[nodiscard]] Result<void> check(const Entry& entry);
  [[nodiscard]] Result<void> reduce_ready();
  [[nodiscard]] Result<void> reduce(int index);
  [[nodiscard]] Result<void> sum_partial(const Entry& entry);
  void keep(int index);
};

/// The gradients that a round does not begin by overwriting.
void GradientBuckets::State::clear(int bucket) {
  for (const Entry& entry : entries) {
    if (entry.bucket == bucket && !entry.declared.overwritten) clear(entry);
  }
}

void GradientBuckets::State::clear(const Entry& entry) {
  const TensorView gradient = memory.inside(entry.bucket, entry.first, entry.declared.shape);
  if (!gradient.empty()) kernels::fill(*options.stream, gradient, 0.0F);
}

void GradientBuckets::State::begin_round() {
  next = 0;
  for (std::size_t b = 0; b < buckets.size(); ++b) {
    buckets[b] = {0, BucketLife::kFilling};
    // Others are cleared when they take over the memory.
    if (memory.former(static_cast<int>(b)) < 0) clear(static_cast<int>(b));
  }
  for (Entry& entry : entries) {
    entry.arrived = 0;
    bucket(entry.bucket).missing += expected(entry);
  }
}

Result<void> GradientBuckets::State::reduce_ready() {
  for (; next < buckets.size() && buckets[next].life == BucketLife::kReady; ++next) {
    buckets[next].life = BucketLife::kInFlight;
    QD_RETURN_IF_ERROR(reduce(static_cast<int>(next)));
    buckets[next].life = BucketLife::kDone;
  }
  if (next == buckets.size() && ++round < rounds()) begin_round();
  return {};
}

Result<void> GradientBuckets::State::reduce(int index) {
  Communicator& group = *options.group;
  const TensorView whole = memory.bucket(index);
  if (group.size() > 1) {
    CollectiveScope scope = group.open(fmt::format("gradient bucket {}", index));
    QD_RETURN_IF_ERROR(options.sharding == 0 ? group.all_reduce(scope, *options.stream, whole)
                                             : group.reduce_scatter(scope, *options.stream, whole));
  }
  if (memory.is_shared()) keep(index);
  return {};
}

/// Sums over the tensor axis what is partial there, as soon as it is complete: the ranks of that
/// axis have pieces of other sizes, so their buckets end elsewhere, but they contribute in one
/// order.
Result<void> GradientBuckets::State::sum_partial(const Entry& entry) {
  Communicator* group = options.tensor_group;
  if (!entry.declared.partial || group == nullptr || group->size() == 1) return {};
  const TensorView gradient = memory.inside(entry.bucket, entry.first, entry.declared.shape);
  CollectiveScope scope = group->open("partial " + entry.declared.name);
  return group->all_reduce(scope, *options.stream, gradient);
}

/// The slice of a reduced bucket joins the shard, and the bucket's memory goes to the next one.
void GradientBuckets::State::keep(int index) {
  const TensorView sums = memory.slice_in_place(index);
  const TensorView shard = memory.slice(index);
  if (!sums.empty() && round == 0) kernels::copy(*options.stream, sums, shard);
  if (!sums.empty() && round > 0) kernels::add(*options.stream, sums, shard);
  const int successor = memory.successor(index);
  if (successor >= 0) clear(successor);
}

Result<void> GradientBuckets::State::check(const Entry& entry) {
  const auto wrong = [&entry](const std::string& why) {
    return fail(Code::kInternal, fmt::format("gradient \"{}\" got {}", entry.declared.name, why));
  };
  if (!in_step) return wrong("a contribution outside a step");
  if (entry.arrived == expected(entry)) {
    return wrong(fmt::format("contribution {} of {} declared ({} in each of {} micro-batches)",
                             entry.arrived + 1, expected(entry), entry.declared.contributions,
                             memory.is_shared() ? 1 : micro_batches));
  }
  const int former = memory.former(entry.bucket);
  if (former >= 0 && bucket(former).life != BucketLife::kDone) {
    return wrong(
        fmt::format("a contribution before bucket {}, whose memory it takes over, was "
                    "complete",
                    former));
  }
  return {};
}

GradientBuckets::GradientBuckets(std::unique_ptr<State> state) : state_(std::move(state)) {}
GradientBuckets::~GradientBuckets() = default;

Result<std::unique_ptr<GradientBuckets>> GradientBuckets::create(
    const GradientBucketOptions& options, std::span<const GradientEntry> entries) {
  QD_CHECK(options.group != nullptr && options.stream != nullptr && options.pool != nullptr);
  QD_CHECK(options.sharding >= 0 && options.sharding <= 3);
  for (const GradientEntry& entry : entries) {
    if (entry.contributions >= 1) continue;
    return fail(Code::kInvalid, fmt::format("gradient \"{}\" declares {} contributions", entry.name,
                                            entry.contributions));
  }
  auto state = std::make_unique<State>();
  state->options = options;
  state->layout = layout_of(entries, options);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const FlatPlace& place = state->layout.places()[i];
    state->entries.push_back({entries[i], place.bucket, place.first, 0});
  }
  state->buckets.resize(state->layout.buckets().size());
  QD_ASSIGN_OR_RETURN(state->memory, internal::BucketMemory::create(options, state->layout));
  // A step clears no more than it must: where buckets have memory of their own, the pads between
  // gradients stay zero from here on. Nobody reads those of memory that is shared.
  for (int b = 0; b < static_cast<int>(state->buckets.size()); ++b) {
    const TensorView whole = state->memory.bucket(b);
    if (!whole.empty()) kernels::fill(*options.stream, whole, 0.0F);
  }
  return std::unique_ptr<GradientBuckets>(new GradientBuckets(std::move(state)));
}

int GradientBuckets::entries() const { return static_cast<int>(state_->entries.size()); }
int GradientBuckets::buckets() const { return static_cast<int>(state_->buckets.size()); }
const FlatLayout& GradientBuckets::layout() const { return state_->layout; }

TensorView GradientBuckets::gradient(int index) const {
  QD_CHECK(index >= 0 && index < entries());
  const Entry& entry = state_->entries[static_cast<std::size_t>(index)];
  return state_->memory.inside(entry.bucket, entry.first, entry.declared.shape);
}

TensorView GradientBuckets::reduced(const FlatPiece& piece) const {
  const Communicator& group = *state_->options.group;
  const Extent slice = state_->layout.slice(piece.bucket, group.rank().value, group.size());
  return state_->memory.slice(piece.bucket).flat(piece.first - slice.first, piece.of_tensor.length);
}

void GradientBuckets::begin_step(std::int64_t micro_batches) {
  QD_CHECK(micro_batches >= 1);
  state_->micro_batches = micro_batches;
  state_->round = 0;
  state_->in_step = true;
  state_->begin_round();
}

Result<void> GradientBuckets::contribute(int index) {
  QD_CHECK(index >= 0 && index < entries());
  State& state = *state_;
  Entry& entry = state.entries[static_cast<std::size_t>(index)];
  QD_RETURN_IF_ERROR(state.check(entry));
  if (++entry.arrived == state.expected(entry)) QD_RETURN_IF_ERROR(state.sum_partial(entry));
  Bucket& bucket = state.bucket(entry.bucket);
  QD_CHECK(bucket.life == BucketLife::kFilling);
  if (--bucket.missing > 0) return {};
  bucket.life = BucketLife::kReady;
  return state.reduce_ready();
}

Result<void> GradientBuckets::finish() {
  State& state = *state_;
  if (!state.in_step) return fail(Code::kInternal, "gradients are finished outside a step");
  state.in_step = false;
  std::string late;
  for (const Entry& entry : state.entries) {
    if (entry.arrived == state.expected(entry)) continue;
    late += fmt::format("{}\"{}\" ({} of {} contributions)", late.empty() ? "" : ", ",
                        entry.declared.name, entry.arrived, state.expected(entry));
  }
  if (!late.empty()) return fail(Code::kInternal, "gradients never became ready: " + late);
  for (const Bucket& bucket : state.buckets) QD_CHECK(bucket.life == BucketLife::kDone);
  return {};
}

}  // namespace quadrille
