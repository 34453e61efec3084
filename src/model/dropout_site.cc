// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/dropout_site.h"

#include <algorithm>

#include "quadrille/base/random.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille::internal {
namespace {

/// Calls `body(first, count, global)` for each maximal run of this rank's token rows first ...
/// first + count - 1 that stand at rows global, global + 1, ... of the global batch [B_global * T]:
/// one kernel call a run.
template <class Body>
void for_each_run(const LayerContext& context, const Body& body) {
  const auto& slots = context.global_sequences;
  const std::int64_t sequence = context.tokens.shape()[1];
  QD_CHECK(static_cast<std::int64_t>(slots.size()) == context.tokens.shape()[0]);
  const auto slot_of = [&](std::int64_t row) {
    return slots[static_cast<std::size_t>(row / sequence)];
  };
  const Extent own = residual_rows(context.tokens.elements(), context.tensor.share());
  const std::int64_t end = own.first + own.length;
  for (std::int64_t row = own.first; row < end;) {
    std::int64_t next = (row / sequence + 1) * sequence;
    while (next < end && slot_of(next) == slot_of(next - 1) + 1) next += sequence;
    next = std::min(next, end);
    body(row - own.first, next - row, slot_of(row) * sequence + row % sequence);
    row = next;
  }
}

struct MaskSite {
  std::uint64_t id = 0;
  float probability = 0;
};

/// The mask of the elements from token row `global` on, each `width` long.
kernels::DropoutMask mask_at(const LayerContext& context, const MaskSite& site, std::int64_t global,
                             std::int64_t width) {
  return {.stream = RandomStream(context.seed, RandomPurpose::kDropout, site.id,
                                 static_cast<std::uint64_t>(context.step)),
          .first = static_cast<std::uint64_t>(global * width),
          .probability = site.probability};
}

}  // namespace

DropoutSite::DropoutSite(const ModelSpec& spec, std::string_view name)
    : id_(stable_id(name)), probability_(static_cast<float>(spec.dropout)), width_(spec.hidden) {}

bool DropoutSite::active(const LayerContext& context) const {
  return context.training && probability_ > 0;
}

void DropoutSite::apply(const LayerContext& context, const TensorView& x) const {
  if (active(context)) (void)backward(context, x, x);
}

void DropoutSite::add(const LayerContext& context, const TensorView& x, const TensorView& residual,
                      const TensorView& sum) const {
  if (!active(context)) {
    const RandomStream unused(0, RandomPurpose::kDropout, 0);
    kernels::dropout_add(*context.stream, {.stream = unused}, x, residual, sum);
    return;
  }
  const auto rows = [this](const TensorView& view, std::int64_t first, std::int64_t count) {
    return as_rows(view, width_).rows(first, count);
  };
  for_each_run(context, [&](std::int64_t first, std::int64_t count, std::int64_t global) {
    kernels::dropout_add(*context.stream, mask_at(context, {id_, probability_}, global, width_),
                         rows(x, first, count), rows(residual, first, count),
                         rows(sum, first, count));
  });
}

TensorView DropoutSite::backward(const LayerContext& context, const TensorView& dy,
                                 const TensorView& scratch) const {
  if (!active(context)) return dy;
  for_each_run(context, [&](std::int64_t first, std::int64_t count, std::int64_t global) {
    kernels::dropout(*context.stream, mask_at(context, {id_, probability_}, global, width_),
                     as_rows(dy, width_).rows(first, count),
                     as_rows(scratch, width_).rows(first, count));
  });
  return scratch;
}

}  // namespace quadrille::internal
