// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/model/tensor_group.h"

#include <utility>

#include "quadrille/base/check.h"

namespace quadrille {
namespace {

TensorView as_matrix(const TensorView& x, std::int64_t width) {
  return x.reshape({x.elements() / width, width});
}

}  // namespace

TensorGroup::TensorGroup(Communicator& group, const TensorShare& share, Around around)
    : group_(&group), share_(share), around_(std::move(around)) {
  QD_CHECK(group.size() == share.degree);
  QD_CHECK(group.rank().value == share.index);
}

TensorView TensorGroup::own_rows(const TensorView& x, std::int64_t width) const {
  if (!shares_rows()) return x;
  const TensorView rows = as_matrix(x, width);
  const Extent own = residual_rows(rows.shape()[0], share_);
  return rows.rows(own.first, own.length);
}

Result<void> TensorGroup::call(const std::function<Result<void>(CollectiveScope&)>& collective,
                               std::string_view place) const {
  CollectiveScope scope = group_->open(place);
  const auto run = [&collective, &scope] { return collective(scope); };
  return around_ ? around_(run) : run();
}

Result<void> TensorGroup::gather_rows(Stream& stream, const TensorView& x,
                                      std::int64_t width) const {
  if (!shares_rows()) return {};
  return call(
      [&](CollectiveScope& scope) {
        return group_->all_gather(scope, stream, as_matrix(x, width));
      },
      "rows of a layer's input");
}

Result<void> TensorGroup::sum_rows(Stream& stream, const TensorView& x, std::int64_t width) const {
  if (size() == 1) return {};
  return call(
      [&](CollectiveScope& scope) {
        const TensorView rows = as_matrix(x, width);
        return shares_rows() ? group_->reduce_scatter(scope, stream, rows)
                             : group_->all_reduce(scope, stream, rows);
      },
      "sums of a layer's output");
}

Result<void> TensorGroup::gather_parts(Stream& stream, const TensorView& x) const {
  if (size() == 1) return {};
  QD_CHECK(x.shape()[0] == size());
  return call([&](CollectiveScope& scope) { return group_->all_gather(scope, stream, x); },
              "parts of the vocabulary");
}

}  // namespace quadrille
