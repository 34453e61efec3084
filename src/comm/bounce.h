// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// Host memory that carries tensors of devices which the host cannot touch.

#include <memory>

#include "quadrille/base/result.h"
#include "quadrille/device/device.h"
#include "quadrille/memory/pool.h"

namespace quadrille::internal {

/// Made when first needed; grows to the largest tensor.
class Bounce {
 public:
  [[nodiscard]] static bool is_needed(Stream& stream, const TensorView& tensor) {
    return !tensor.empty() && !stream.device().host_addressable();
  }
  /// Room for something like the tensor, in host memory.
  [[nodiscard]] Result<TensorView> view(const TensorView& tensor);
  /// The tensor's values in host memory; complete when this returns.
  [[nodiscard]] Result<TensorView> download(Stream& stream, const TensorView& tensor);
  /// Enqueues the way back.
  static void upload(Stream& stream, const TensorView& host, const TensorView& tensor);

  /// A stream of the host that works on it, once there is a view.
  [[nodiscard]] Stream& stream() { return *stream_; }
  [[nodiscard]] Bytes bytes() const { return lease_.bytes(); }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Pool> pool_;
  Lease lease_;
};

}  // namespace quadrille::internal
