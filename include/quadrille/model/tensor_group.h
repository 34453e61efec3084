// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

// The tensor axis as a layer sees it: the ranks that share its matrices, and the four ways in which
// rows [N, width] pass between them. Alone, every call does nothing.
//
//                      products see        between them
//   all rows           every rank all      every rank all         sum_rows is an all-reduce
//   rows are shared    every rank all      each rank its own      sum_rows is a reduce-scatter and
//                                                                 gather_rows an all-gather
// Source: Shoeybi et al. 2019, "Megatron-LM", section 3 (the conjugate operators f and g);
// Korthikanti et al. 2022, "Reducing activation recomputation in large transformer models", section
// 4.2.2 (their counterparts over the sequence).

#include <cstdint>
#include <functional>
#include <string_view>

#include "quadrille/base/result.h"
#include "quadrille/comm/communicator.h"
#include "quadrille/config/tensor_share.h"
#include "quadrille/device/device.h"

namespace quadrille {

class TensorGroup {
 public:
  /// Wraps each collective: whoever measures puts its clock around the call.
  using Around = std::function<Result<void>(const std::function<Result<void>()>&)>;

  TensorGroup() = default;
  /// `group` outlives this and has the share's degree.
  TensorGroup(Communicator& group, const TensorShare& share, Around around = {});

  [[nodiscard]] const TensorShare& share() const { return share_; }
  [[nodiscard]] int size() const { return share_.degree; }
  [[nodiscard]] int index() const { return share_.index; }
  [[nodiscard]] bool shares_rows() const { return share_.shares_rows(); }

  /// This rank's rows of x [.., width]: x itself where all rows are everybody's.
  [[nodiscard]] TensorView own_rows(const TensorView& x, std::int64_t width) const;
  /// Where rows are shared: x [.., width] of which each rank has its own rows becomes whole.
  [[nodiscard]] Result<void> gather_rows(Stream& stream, const TensorView& x,
                                         std::int64_t width) const;
  /// x [.., width] is each rank's part of a sum; own_rows(x) becomes the sum.
  [[nodiscard]] Result<void> sum_rows(Stream& stream, const TensorView& x,
                                      std::int64_t width) const;
  /// x [size, ..]: what each rank wrote at its index reaches all.
  [[nodiscard]] Result<void> gather_parts(Stream& stream, const TensorView& x) const;

 private:
  [[nodiscard]] Result<void> call(const std::function<Result<void>(CollectiveScope&)>& collective,
                                  std::string_view place) const;

  Communicator* group_ = nullptr;
  TensorShare share_;
  Around around_;
};

}  // namespace quadrille
