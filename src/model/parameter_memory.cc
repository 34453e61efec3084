// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/model/parameter_memory.h"

namespace quadrille {
namespace {

constexpr std::int64_t kCacheLine = 64;

Bytes padded_bytes(const Parameter& parameter) {
  const Bytes bytes = Bytes(parameter.piece.elements()) * element_bytes(DType::kF32);
  return Bytes((bytes.count() + kCacheLine - 1) / kCacheLine * kCacheLine);
}

}  // namespace

Result<Lease> bind_values(Transformer& model, Pool& pool) {
  Bytes total;
  for (const Parameter& parameter : model.parameters()) total += padded_bytes(parameter);
  QD_ASSIGN_OR_RETURN(Lease lease, pool.lease(total, MemoryTag::kParameter, "the parameters"));
  Bytes offset;
  for (Parameter& parameter : model.parameters()) {
    parameter.value = lease.view_at(offset, DType::kF32, parameter.own_shape());
    offset += padded_bytes(parameter);
  }
  return lease;
}

}  // namespace quadrille
