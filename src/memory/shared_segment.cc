// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/memory/shared_segment.h"

#include <memory>

namespace quadrille {

std::string segment_name(std::string_view run_id, std::string_view what) {
  std::string name = "quadrille-";
  name += run_id;
  name += '-';
  return name += what;
}

Result<SharedSegment> SharedSegment::create(std::string_view run_id, std::string_view what,
                                            Bytes bytes, int color) {
  QD_ASSIGN_OR_RETURN(SharedMemory memory,
                      SharedMemory::create(segment_name(run_id, what), bytes, color));
  return SharedSegment(std::move(memory));
}

Result<SharedSegment> SharedSegment::open(std::string_view run_id, std::string_view what,
                                          int color) {
  QD_ASSIGN_OR_RETURN(SharedMemory memory, SharedMemory::open(segment_name(run_id, what), color));
  return SharedSegment(std::move(memory));
}

Result<Lease> SharedSegment::into_lease(SharedSegment segment, Pool& pool, MemoryTag tag,
                                        std::string_view what) {
  QD_CHECK(pool.device().kind() == DeviceKind::kHost);
  const std::span<std::byte> bytes = segment.bytes();
  // Shared, since a std::function must be copyable; the lease holds the only copy.
  auto owner = std::make_shared<SharedSegment>(std::move(segment));
  return pool.adopt({bytes.data(), Bytes(static_cast<std::int64_t>(bytes.size())), [owner] {}}, tag,
                    what);
}

}  // namespace quadrille
