// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/model/parameter_memory.h"

namespace quadrille {
namespace {

constexpr std::int64_t kCacheLine = 64;

Shape shape_of(const ParameterShape& parameter) {
  QD_CHECK(parameter.shape.size() == 1 || parameter.shape.size() == 2);
  if (parameter.shape.size() == 1) return {parameter.shape[0]};
  return {parameter.shape[0], parameter.shape[1]};
}

Bytes padded_bytes(const ParameterShape& parameter) {
  const Bytes bytes = Bytes(parameter.elements()) * element_bytes(DType::kF32);
  return Bytes((bytes.count() + kCacheLine - 1) / kCacheLine * kCacheLine);
}

}  // namespace

Result<Lease> bind_values(Transformer& model, Pool& pool) {
  Bytes total;
  for (const Parameter& parameter : model.parameters()) total += padded_bytes(parameter.shape);
  QD_ASSIGN_OR_RETURN(Lease lease, pool.lease(total, MemoryTag::kParameter, "the parameters"));
  Bytes offset;
  for (Parameter& parameter : model.parameters()) {
    parameter.value = lease.view_at(offset, DType::kF32, shape_of(parameter.shape));
    offset += padded_bytes(parameter.shape);
  }
  return lease;
}

}  // namespace quadrille
