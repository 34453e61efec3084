// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "train/parameter_residency.h"

#include <fmt/format.h>

#include <utility>

#include "quadrille/base/check.h"
#include "quadrille/kernels/pointwise.h"

namespace quadrille::internal {
namespace {

Bytes bytes_of(std::int64_t elements) { return Bytes(elements) * element_bytes(DType::kF32); }

std::size_t slot_of(std::int64_t layer) { return static_cast<std::size_t>(layer % 2); }

}  // namespace

Result<ParameterResidency> ParameterResidency::create(RankBase& base, ResidencyOptions options) {
  ParameterResidency residency;
  std::vector<std::vector<int>> entries;
  for (const std::vector<int>& tensors : options.tensors_of_layer) {
    entries.emplace_back();
    for (const int tensor : tensors) {
      entries.back().push_back(base.entry_of_tensor[static_cast<std::size_t>(tensor)]);
    }
  }
  residency.base_ = &base;
  residency.options_ = std::move(options);
  residency.arena_ = lay_out_layers(base.buckets->layout(), entries);
  QD_ASSIGN_OR_RETURN(residency.lease_, base.data_group->lease(
                                            *base.pool, bytes_of(residency.arena_.elements),
                                            MemoryTag::kParameter, "the parameters of two layers"));
  return residency;
}

template <class Body>
Result<void> ParameterResidency::for_each_bucket(std::int64_t layer, const Body& body) const {
  const FlatLayout& layout = base_->buckets->layout();
  const auto index = static_cast<std::size_t>(layer);
  std::int64_t begin = arena_.begin[index];
  for (const int bucket : arena_.buckets[index]) {
    const FlatBucket& whole = layout.buckets()[static_cast<std::size_t>(bucket)];
    const Extent slice =
        layout.slice(bucket, base_->data_group->rank().value, base_->data_group->size());
    const TensorView memory = lease_.view_at(bytes_of(begin), DType::kF32, Shape{whole.length});
    QD_RETURN_IF_ERROR(body(bucket, memory, memory.flat(slice.first - whole.first, slice.length)));
    begin += whole.length;
  }
  return {};
}

void ParameterResidency::close(std::size_t slot) {
  QD_CHECK_MSG(!in_use_[slot], "the parameters of a layer in use would be lost");
  const std::int64_t layer = std::exchange(resident_[slot], -1);
  if (layer < 0) return;
  for (const int tensor : options_.tensors_of_layer[static_cast<std::size_t>(layer)]) {
    options_.bind(tensor, TensorView());
  }
}

/// Memory for the layer's values, whatever is in it.
void ParameterResidency::open(std::int64_t layer) {
  if (resident_[slot_of(layer)] != layer) close(slot_of(layer));
  resident_[slot_of(layer)] = layer;
  const FlatLayout& layout = base_->buckets->layout();
  const auto bound = for_each_bucket(
      layer, [&](int bucket, const TensorView& memory, const TensorView&) -> Result<void> {
        const std::int64_t first = layout.buckets()[static_cast<std::size_t>(bucket)].first;
        for (const int tensor : options_.tensors_of_layer[static_cast<std::size_t>(layer)]) {
          const auto index = static_cast<std::size_t>(tensor);
          const FlatPlace& place =
              layout.places()[static_cast<std::size_t>(base_->entry_of_tensor[index])];
          if (place.bucket != bucket) continue;
          options_.bind(tensor, memory.flat(place.first - first, place.elements)
                                    .reshape(base_->tensors[index].shape));
        }
        return {};
      });
  QD_CHECK(bound.has_value());
}

Result<void> ParameterResidency::acquire(std::int64_t layer) {
  if (!gathers()) return {};
  const bool is_there = resident_[slot_of(layer)] == layer;
  open(layer);
  in_use_[slot_of(layer)] = true;
  if (is_there) return {};
  return for_each_bucket(
      layer, [&](int bucket, const TensorView& memory, const TensorView& mine) -> Result<void> {
        if (!mine.empty()) kernels::copy(*base_->stream, own_values(*base_, bucket), mine);
        CollectiveScope scope =
            base_->data_group->open(fmt::format("parameters of layer {}", layer));
        return base_->data_group->all_gather(scope, *base_->stream, memory);
      });
}

void ParameterResidency::release(std::int64_t layer) {
  if (gathers()) in_use_[slot_of(layer)] = false;
}

void ParameterResidency::forget() {
  if (!gathers()) return;
  close(0);
  close(1);
}

void ParameterResidency::fill(const std::function<void()>& body) {
  if (!gathers()) return body();
  for (std::size_t layer = 0; layer < arena_.begin.size(); ++layer) {
    forget();
    open(static_cast<std::int64_t>(layer));
    body();
    const auto kept =
        for_each_bucket(static_cast<std::int64_t>(layer),
                        [&](int bucket, const TensorView&, const TensorView& mine) -> Result<void> {
                          if (!mine.empty()) {
                            kernels::copy(*base_->stream, mine, own_values(*base_, bucket));
                          }
                          return {};
                        });
    QD_CHECK(kept.has_value());
  }
  forget();
}

}  // namespace quadrille::internal
