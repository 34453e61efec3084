// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "comm/bounce.h"

#include <span>

namespace quadrille::internal {
namespace {

std::span<std::byte> bytes_of(const TensorView& host) {
  return {static_cast<std::byte*>(host.address()), static_cast<std::size_t>(host.bytes().count())};
}

}  // namespace

Result<TensorView> Bounce::view(const TensorView& tensor) {
  if (device_ == nullptr) {
    device_ = make_host_device();
    stream_ = device_->make_stream();
    QD_ASSIGN_OR_RETURN(pool_, Pool::create({device_.get(), Bytes(0), "copies for peers"}));
  }
  if (lease_.bytes() < tensor.bytes() || lease_.device() == nullptr) {
    lease_ = Lease();
    QD_ASSIGN_OR_RETURN(lease_, pool_->lease(tensor.bytes(), MemoryTag::kCommunication, "tensor"));
  }
  return lease_.view(tensor.dtype(), tensor.shape());
}

Result<TensorView> Bounce::download(Stream& stream, const TensorView& tensor) {
  QD_ASSIGN_OR_RETURN(const TensorView host, view(tensor));
  stream.download(tensor, bytes_of(host));
  QD_RETURN_IF_ERROR(stream.synchronize());
  return host;
}

void Bounce::upload(Stream& stream, const TensorView& host, const TensorView& tensor) {
  stream.upload(bytes_of(host), tensor);
}

}  // namespace quadrille::internal
