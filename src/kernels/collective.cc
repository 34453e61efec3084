// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/kernels/collective.h"

#include <array>
#include <utility>
#include <vector>

#include "kernels/host_collective.h"
#include "kernels/operands.h"

namespace quadrille::kernels {
namespace {

template <class T>
void sum_host(const std::vector<TensorView>& tensors, int target) {
  std::vector<T*> buffers;
  for (const TensorView& tensor : tensors) buffers.push_back(tensor.host<T>());
  internal::host_sum_buffers(std::span<T* const>(buffers), target, tensors.front().elements());
}

void launch_sum(Stream& stream, std::span<const TensorView> tensors, int target) {
  QD_CHECK_MSG(!tensors.empty(), "a sum needs a tensor");
  const DType dtype = tensors.front().dtype();
  QD_CHECK_MSG(dtype == DType::kF32 || dtype == DType::kBF16,
               "sums are of F32 or BF16, not " + std::string(kDTypeText.text(dtype)));
  std::vector<Operand> operands;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    internal::require_elements(tensors[i], "tensor", dtype, tensors.front().elements());
    const bool is_target = target == internal::kEveryBuffer || static_cast<int>(i) == target;
    operands.push_back(is_target ? internal::updates(tensors[i]) : internal::reads(tensors[i]));
  }
  stream.launch("sum_of_ranks", operands,
                [tensors = std::vector<TensorView>(tensors.begin(), tensors.end()), target, dtype] {
                  if (dtype == DType::kF32) return sum_host<float>(tensors, target);
                  sum_host<BFloat16>(tensors, target);
                });
}

}  // namespace

void sum_into_all(Stream& stream, std::span<const TensorView> tensors) {
  launch_sum(stream, tensors, internal::kEveryBuffer);
}

void sum_into_one(Stream& stream, std::span<const TensorView> tensors, int target) {
  QD_CHECK(target >= 0 && target < static_cast<int>(tensors.size()));
  launch_sum(stream, tensors, target);
}

void copy_past_caches(Stream& stream, const TensorView& source, const TensorView& target) {
  internal::require_elements(target, "target", source.dtype(), source.elements());
  if (source.empty()) return;
  stream.launch("copy_of_rank", std::array{internal::reads(source), internal::writes(target)},
                [source, target] {
                  internal::host_copy_past_caches(static_cast<const std::byte*>(source.address()),
                                                  static_cast<std::byte*>(target.address()),
                                                  source.bytes().count());
                });
}

}  // namespace quadrille::kernels
