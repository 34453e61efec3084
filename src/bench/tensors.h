// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensors on the host that live as long as this, filled, for kernels that are measured alone.

#include <memory>
#include <vector>

#include "quadrille/device/device.h"
#include "quadrille/kernels/pointwise.h"
#include "quadrille/memory/pool.h"

namespace quadrille::internal {

class Tensors {
 public:
  Tensors()
      : device_(make_host_device()),
        stream_(device_->make_stream()),
        pool_(Pool::create({device_.get(), Bytes(0), "benchmark"}).value()) {}

  [[nodiscard]] Stream& stream() { return *stream_; }
  [[nodiscard]] Device& device() { return *device_; }
  [[nodiscard]] Pool& pool() { return *pool_; }

  /// fp32, every element `value`. Errors: kExhausted.
  [[nodiscard]] Result<TensorView> make(const Shape& shape, float value = 0.01F) {
    QD_ASSIGN_OR_RETURN(Lease lease,
                        pool_->lease(Bytes(shape.elements()) * element_bytes(DType::kF32),
                                     MemoryTag::kWorkspace, "a benchmark's tensor"));
    const TensorView view = lease.view(DType::kF32, shape);
    leases_.push_back(std::move(lease));
    kernels::fill(*stream_, view, value);
    return view;
  }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Pool> pool_;
  std::vector<Lease> leases_;
};

}  // namespace quadrille::internal
