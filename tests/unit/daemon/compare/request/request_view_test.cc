// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/request/request_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "daemon/compare/view/tensor_view.h"
#include "protos/base/shape.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

LogicalTensor Tensor(std::vector<int64_t> shape,
                     DType dtype = DType::kFloat32) {
  LogicalTensor out;
  out.key.op = "op";
  out.key.io = Io::kOutput;
  out.key.index = "0";
  out.kind = RecordKind::kTensor;
  out.dtype = dtype;
  out.tensor_bytes = ElementCount(shape) * ElementBytes(dtype);
  out.shape = std::move(shape);
  out.has_bytes = true;
  return out;
}

// Row `row` of a batch of two rows and five columns: positions 10 to 14.
PieceRange Range(int64_t row, RowRange positions = {10, 15}) {
  PieceRange out;
  out.piece.positions = {10, 15};
  out.piece.rows = {row, row + 1};
  out.piece.columns = {0, 5};
  out.piece.batch = {2, 5, 2};
  out.piece.number = row;
  out.positions = positions;
  return out;
}

LogicalTensor View(const SharedTensors& tensors, size_t number,
                   const PieceRange& range, RowPlans& plans) {
  RequestTensor tensor;
  tensor.Add(tensors, number, range);
  return tensor.View(tensor.positions(), plans);
}

TEST(RequestViewTest, TensorsOfEqualShapesAndTypesShareAPlan) {
  const SharedTensors tensors({Tensor({2, 5, 3}), Tensor({2, 5, 3}),
                               Tensor({2, 5, 4}),
                               Tensor({2, 5, 3}, DType::kBfloat16)});
  const PieceRange range = Range(0);
  RowPlans plans;
  std::vector<SharedPlan> all;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const LogicalTensor view = View(tensors, i, range, plans);
    ASSERT_EQ(ViewProblem(view), "");
    EXPECT_EQ(view.dtype, tensors[i].dtype);
    EXPECT_THAT(view.shape, ElementsAre(5, tensors[i].shape[2]));
    EXPECT_EQ(view.view->text, "positions 10-14");
    all.push_back(view.view->plan);
  }
  EXPECT_EQ(all[0], all[1]);
  EXPECT_EQ(plans.plan_count(), 3u);
}

TEST(RequestViewTest, OtherRowsAndPositionsHaveOtherPlans) {
  const SharedTensors tensors({Tensor({2, 5, 3})});
  RowPlans plans;
  const PieceRange ranges[] = {Range(0), Range(1), Range(1, {11, 13})};
  const uint64_t first_elements[] = {0, 15, 18};
  for (size_t i = 0; i < 3; ++i) {
    const LogicalTensor view = View(tensors, 0, ranges[i], plans);
    ASSERT_EQ(ViewProblem(view), "");
    view.view->plan->terms.front().VisitRuns(0, 1, [&](const GatherRun& run) {
      EXPECT_EQ(run.from, first_elements[i]);
    });
  }
  EXPECT_EQ(plans.plan_count(), 3u);
}

TEST(RequestViewTest, TensorsWithoutTheRowsShareTheProblem) {
  const SharedTensors tensors({Tensor({7, 7}), Tensor({7, 7}), Tensor({7})});
  const PieceRange range = Range(0);
  RowPlans plans;
  for (size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_THAT(ViewProblem(View(tensors, i, range, plans)),
                HasSubstr(i < 2 ? "of [7,7] has" : "of [7] has"));
  }
}

TEST(RequestViewTest, AViewKeepsTheTensorsThatItReads) {
  LogicalTensor one;
  LogicalTensor two;
  {
    const SharedTensors first({Tensor({2, 5, 3})});
    const SharedTensors second({Tensor({2, 5, 3})});
    const PieceRange ranges[] = {Range(0, {10, 12}), Range(1, {12, 15})};
    RowPlans plans;
    one = View(first, 0, ranges[0], plans);
    EXPECT_EQ(one.view->leaves.data(), first.data());
    RequestTensor tensor;
    tensor.Add(first, 0, ranges[0]);
    tensor.Add(second, 0, ranges[1]);
    EXPECT_THAT(tensor.positions(), ElementsAre(RowRange{10, 15}));
    two = tensor.View(tensor.positions(), plans);
  }
  EXPECT_EQ(one.view->leaves.front().key.op, "op");
  ASSERT_EQ(two.view->leaves.size(), 2u);
  EXPECT_EQ(two.view->leaves[1].key.op, "op");
  EXPECT_THAT(two.shape, ElementsAre(5, 3));
}

TEST(RequestViewTest, ADetachedTensorHasItsOwnLeaves) {
  const SharedTensors tensors({Tensor({2, 5, 3}), Tensor({2, 5, 3})});
  const PieceRange range = Range(0);
  RowPlans plans;
  const LogicalTensor view = View(tensors, 1, range, plans);
  const LogicalTensor detached = Detached(view);
  EXPECT_EQ(view.view->leaves.data(), &tensors[1]);
  ASSERT_EQ(detached.view->leaves.size(), 1u);
  EXPECT_NE(detached.view->leaves.data(), &tensors[1]);
  EXPECT_EQ(detached.view->leaves.front().key, tensors[1].key);
  EXPECT_EQ(detached.view->plan, view.view->plan);
  EXPECT_EQ(detached.view->text, view.view->text);
  EXPECT_EQ(Detached(tensors[0]).view, nullptr);
}

TEST(RequestViewTest, CommonPositionsAreThoseOfBoth) {
  const std::vector<RowRange> a = {{0, 4}, {6, 9}, {12, 13}};
  const std::vector<RowRange> b = {{2, 7}, {8, 20}};
  EXPECT_THAT(CommonPositions(a, b),
              ElementsAre(RowRange{2, 4}, RowRange{6, 7}, RowRange{8, 9},
                          RowRange{12, 13}));
  EXPECT_EQ(CountPositions(a), 8u);
  EXPECT_EQ(PositionsText(a), "positions 0-3, 6-8, 12");
  EXPECT_EQ(PositionsText(std::vector<RowRange>{{5, 6}}), "position 5");
  EXPECT_EQ(PositionsText(
                std::vector<RowRange>{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}}),
            "positions 0, 2, 4, 6, ...");
}

}  // namespace
}  // namespace msitd::compare
