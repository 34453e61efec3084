// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/bucket_memory.h"

#include <algorithm>

#include "quadrille/base/check.h"

namespace quadrille::internal {
namespace {

Bytes bytes_of(std::int64_t elements) {
  return Bytes(elements) * static_cast<std::int64_t>(sizeof(float));
}

}  // namespace

Result<BucketMemory> BucketMemory::create(const GradientBucketOptions& options,
                                          const FlatLayout& layout) {
  BucketMemory memory;
  memory.options_ = options;
  memory.layout_ = layout;
  if (memory.is_shared()) {
    memory.arena_ = lay_out_arena(layout);
  } else {
    for (const FlatBucket& bucket : layout.buckets()) memory.arena_.begin.push_back(bucket.first);
    memory.arena_.elements = layout.elements();
  }
  QD_ASSIGN_OR_RETURN(memory.lease_,
                      options.group->lease(*options.pool, bytes_of(memory.arena_.elements),
                                           MemoryTag::kGradient, "gradient buckets"));
  if (!memory.is_shared()) return memory;
  const auto all = static_cast<int>(layout.buckets().size());
  const std::int64_t shard =
      layout.place_in_shard(all, options.group->rank().value, options.group->size());
  QD_ASSIGN_OR_RETURN(memory.shard_, options.pool->lease(bytes_of(shard), MemoryTag::kGradient,
                                                         "this rank's gradients"));
  return memory;
}

int BucketMemory::former(int bucket) const {
  return is_shared() ? arena_.former[static_cast<std::size_t>(bucket)] : -1;
}

int BucketMemory::successor(int bucket) const {
  const auto found = std::find(arena_.former.begin(), arena_.former.end(), bucket);
  return found == arena_.former.end() ? -1 : static_cast<int>(found - arena_.former.begin());
}

TensorView BucketMemory::bucket(int index) const {
  const auto b = static_cast<std::size_t>(index);
  return lease_.view_at(bytes_of(arena_.begin[b]), DType::kF32, Shape{layout_.buckets()[b].length});
}

TensorView BucketMemory::inside(int bucket, std::int64_t first, Shape shape) const {
  const auto b = static_cast<std::size_t>(bucket);
  const std::int64_t offset = arena_.begin[b] + first - layout_.buckets()[b].first;
  return lease_.view_at(bytes_of(offset), DType::kF32, shape);
}

TensorView BucketMemory::slice_in_place(int bucket) const {
  const Communicator& group = *options_.group;
  const Extent slice = layout_.slice(bucket, group.rank().value, group.size());
  return inside(bucket, slice.first, Shape{slice.length});
}

TensorView BucketMemory::slice(int bucket) const {
  if (!is_shared()) return slice_in_place(bucket);
  const Communicator& group = *options_.group;
  const std::int64_t place = layout_.place_in_shard(bucket, group.rank().value, group.size());
  const Extent slice = layout_.slice(bucket, group.rank().value, group.size());
  return shard_.view_at(bytes_of(place), DType::kF32, Shape{slice.length});
}

}  // namespace quadrille::internal
