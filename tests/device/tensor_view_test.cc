// Copyright The Quadrille Authors
// SPDX-License-Identifier: Apache-2.0
#include "quadrille/device/tensor_view.h"

#include <gtest/gtest.h>

#include <vector>

namespace quadrille {
namespace {

class TensorViewTest : public ::testing::Test {
 protected:
  std::vector<float> values_ = std::vector<float>(24);
  TensorView view_{nullptr, values_.data(), DType::kF32, {4, 3, 2}};
};

TEST(Shape, SaysItsExtents) {
  EXPECT_EQ((Shape{2, 64, 128}).to_text(), "[2, 64, 128]");
  EXPECT_EQ(Shape().to_text(), "[]");
  EXPECT_EQ(Shape().elements(), 1);
  EXPECT_EQ((Shape{5, 0, 7}).elements(), 0);
}

TEST(Shape, RefusesMoreElementsThanSixtyFourBitsCount) {
  const std::int64_t big = std::int64_t{1} << 32;
  EXPECT_DEATH((void)(Shape{big, big}).elements(), "overflow");
}

TEST_F(TensorViewTest, RowsAreTheOutermostDimension) {
  const TensorView rows = view_.rows(1, 2);
  EXPECT_EQ(rows.shape(), (Shape{2, 3, 2}));
  EXPECT_EQ(rows.host<float>(), values_.data() + 6);
  EXPECT_TRUE(view_.rows(4, 0).empty());
}

TEST_F(TensorViewTest, FlatCountsElementsAcrossDimensions) {
  const TensorView part = view_.flat(5, 7);
  EXPECT_EQ(part.shape(), (Shape{7}));
  EXPECT_EQ(part.host<float>(), values_.data() + 5);
  EXPECT_EQ(view_.flat().bytes(), Bytes(96));
}

TEST_F(TensorViewTest, ReshapeKeepsBytesAndCount) {
  EXPECT_EQ(view_.reshape({12, 2}).host<float>(), values_.data());
  EXPECT_DEATH((void)view_.reshape({5, 5}), "\\[4, 3, 2\\] to \\[5, 5\\]");
}

TEST_F(TensorViewTest, RefusesRowsBeyondItsEnd) {
  EXPECT_DEATH((void)view_.rows(3, 2), "count <= extent - first");
  EXPECT_DEATH((void)view_.rows(-1, 2), "first >= 0");
  EXPECT_DEATH((void)view_.flat(20, 5), "count <= extent - first");
}

TEST_F(TensorViewTest, RefusesAnotherType) { EXPECT_DEATH((void)view_.host<double>(), "dtype_of"); }

}  // namespace
}  // namespace quadrille
