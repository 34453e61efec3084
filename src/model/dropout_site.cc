// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "model/dropout_site.h"

#include "quadrille/base/random.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille::internal {
namespace {

/// Calls `body(first, count, global)` for each maximal run of rows first ... first + count - 1
/// whose global slots are global, global + 1, ...: one kernel call a run.
template <class Body>
void for_each_run(const LayerContext& context, std::int64_t rows, const Body& body) {
  const auto& slots = context.global_sequences;
  QD_CHECK(static_cast<std::int64_t>(slots.size()) == rows);
  std::size_t first = 0;
  while (first < slots.size()) {
    std::size_t end = first + 1;
    while (end < slots.size() && slots[end] == slots[end - 1] + 1) ++end;
    body(static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first), slots[first]);
    first = end;
  }
}

struct MaskSite {
  std::uint64_t id = 0;
  float probability = 0;
};

/// The mask of the elements from sequence `global` on, each `row_elements` long.
kernels::DropoutMask mask_at(const LayerContext& context, const MaskSite& site, std::int64_t global,
                             std::int64_t row_elements) {
  return {.stream = RandomStream(context.seed, RandomPurpose::kDropout, site.id,
                                 static_cast<std::uint64_t>(context.step)),
          .first = static_cast<std::uint64_t>(global * row_elements),
          .probability = site.probability};
}

}  // namespace

DropoutSite::DropoutSite(const ModelSpec& spec, std::string_view name)
    : id_(stable_id(name)), probability_(static_cast<float>(spec.dropout)) {}

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
  const std::int64_t row = x.elements() / x.shape()[0];
  for_each_run(context, x.shape()[0], [&](std::int64_t first, std::int64_t count, auto global) {
    kernels::dropout_add(*context.stream, mask_at(context, {id_, probability_}, global, row),
                         x.rows(first, count), residual.rows(first, count), sum.rows(first, count));
  });
}

TensorView DropoutSite::backward(const LayerContext& context, const TensorView& dy,
                                 const TensorView& scratch) const {
  if (!active(context)) return dy;
  const std::int64_t row = dy.elements() / dy.shape()[0];
  for_each_run(context, dy.shape()[0], [&](std::int64_t first, std::int64_t count, auto global) {
    kernels::dropout(*context.stream, mask_at(context, {id_, probability_}, global, row),
                     dy.rows(first, count), scratch.rows(first, count));
  });
  return scratch;
}

}  // namespace quadrille::internal
