// SPDX-License-Identifier: Apache-2.0
// Tests of rows whose tensors are seen through views.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "protos/chunk/chunk_format.h"
#include "protos/status/status.h"
#include "tests/support/either_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class ViewRowsTest : public testing::EitherStoreTest {
 protected:
  static RecordedTensor Shaped(std::string_view op, std::vector<float> values,
                               std::vector<int64_t> shape) {
    RecordedTensor out = Floats(op, values);
    out.shape = std::move(shape);
    return out;
  }

  v1::View& Add(bool is_golden, std::string pattern, std::string text,
                std::string as_op = "") {
    v1::View& view = is_golden ? *matching_.add_golden_views()
                               : *matching_.add_target_views();
    view.set_op_pattern(std::move(pattern));
    view.set_view(std::move(text));
    view.set_as_op(std::move(as_op));
    return view;
  }

  std::vector<v1::ComparisonRow> Rows() {
    auto matching = MatchRules::Create(matching_);
    EXPECT_TRUE(matching.ok()) << matching.status();
    plan_.matching = *std::move(matching);
    RowObserver observer;
    const absl::Status status =
        ComparisonEngine(store_.readers(), plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    comparison_ = observer.comparison;
    read_bytes_ = observer.read_bytes;
    return observer.rows;
  }

  // Returns the only row of each op.
  std::map<std::string, v1::ComparisonRow> RowsByOp() {
    std::map<std::string, v1::ComparisonRow> out;
    for (v1::ComparisonRow& row : Rows()) {
      EXPECT_TRUE(out.emplace(row.op(), row).second) << row.op();
    }
    return out;
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  v1::Matching matching_;
  ComparisonPlan plan_{"g", "t", {}, {}};
  v1::Comparison comparison_;
  uint64_t read_bytes_ = 0;
};

MSITD_ON_BOTH_STORES(ViewRowsTest);

TEST_P(ViewRowsTest, APermutedTensorIsComparedInTheOtherOrder) {
  golden_.Record(Shaped("op", {1, 2, 3, 4, 5, 6}, {2, 3}));
  target_.Record(Shaped("op", {1, 4, 2, 5, 3, 6}, {3, 2}));
  EXPECT_EQ(Rows().at(0).verdict(), v1::FAIL);
  Add(false, "op", "permute(1,0)");
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].reason(), "target view permute(1,0)");
  EXPECT_EQ(rows[0].target().view(), "permute(1,0)");
  EXPECT_EQ(rows[0].golden().view(), "");
  EXPECT_THAT(rows[0].target().shape(), ElementsAre(2, 3));
  EXPECT_EQ(rows[0].target().max(), 6);
  EXPECT_EQ(rows[0].target().hash(), "");
  EXPECT_GT(read_bytes_, 0u);
}

TEST_P(ViewRowsTest, ADifferenceIsAtItsPositionInTheView) {
  golden_.Record(Shaped("op", {1, 2, 3, 4, 5, 6}, {2, 3}));
  target_.Record(Shaped("op", {1, 4, 2, 5, 7, 6}, {3, 2}));
  Add(false, "op", "permute(1,0)");
  const auto rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::FAIL);
  EXPECT_THAT(rows[0].reason(), HasSubstr("at [0,2]: target 7, golden 3"));
  EXPECT_THAT(rows[0].reason(), HasSubstr("; target view permute(1,0)"));
}

// Equal shapes and equal bytes must not pass because of their hashes.
TEST_P(ViewRowsTest, EqualBytesAreNotEqualThroughAView) {
  golden_.Record(Shaped("op", {1, 2, 3, 4}, {2, 2}));
  target_.Record(Shaped("op", {1, 2, 3, 4}, {2, 2}));
  Add(true, "op", "transpose(0,1)");
  const auto rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::FAIL);
  EXPECT_FALSE(rows[0].bitwise_equal());
}

TEST_P(ViewRowsTest, AReshapeKeepsTheHash) {
  golden_.Record(Shaped("op", {1, 2, 3, 4}, {4}));
  target_.Record(Shaped("op", {1, 2, 3, 4}, {2, 2}));
  Add(false, "op", "flatten");
  const auto rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::PASS) << rows[0].reason();
  EXPECT_TRUE(rows[0].bitwise_equal());
  EXPECT_EQ(read_bytes_, 0u);
}

class FusedTest : public ViewRowsTest {
 protected:
  // Golden q, k and v of a layer, and a target that has them side by side.
  void Record(float error) {
    golden_.Record(Shaped("l.0.q_proj", {1, 2, 11, 12}, {2, 2}));
    golden_.Record(Shaped("l.0.k_proj", {3, 13}, {2, 1}));
    golden_.Record(Shaped("l.0.v_proj", {4, 14}, {2, 1}));
    target_.Record(
        Shaped("l.0.qkv", {1, 2, 3, 4, 11, 12, 13 + error, 14}, {2, 4}));
  }
};

MSITD_ON_BOTH_STORES(FusedTest);

TEST_P(FusedTest, PartsAreComparedUnderTheirNames) {
  Record(0.5F);
  for (const auto& [part, name] :
       {std::pair(0, "q"), std::pair(1, "k"), std::pair(2, "v")}) {
    Add(false, "*.qkv", fmt::format("split(-1,2:1:1,{})", part),
        fmt::format("*.{}_proj", name));
  }
  const auto rows = RowsByOp();
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows.at("l.0.q_proj").verdict(), v1::PASS);
  EXPECT_EQ(rows.at("l.0.k_proj").verdict(), v1::FAIL);
  EXPECT_EQ(rows.at("l.0.v_proj").verdict(), v1::PASS);
  EXPECT_THAT(rows.at("l.0.k_proj").target().name(), HasSubstr("l.0.qkv"));
  EXPECT_THAT(rows.at("l.0.k_proj").reason(),
              HasSubstr("target view split(-1,2:1:1,1)"));
  EXPECT_EQ(rows.at("l.0.q_proj").target().max(), 12);
  const v1::ComparisonRow& fused = rows.at("l.0.qkv");
  EXPECT_EQ(fused.verdict(), v1::SKIPPED);
  EXPECT_FALSE(fused.not_compared());
  EXPECT_EQ(fused.reason(),
            "in run t: compared in l.0.q_proj, l.0.k_proj, l.0.v_proj");
}

// A part that is compared with nothing is not excused by the other parts.
TEST_P(FusedTest, APartThatIsNotComparedIsReported) {
  Record(0);
  Add(false, "*.qkv", "split(-1,2:1:1,0)", "*.q_proj");
  Add(false, "*.qkv", "split(-1,2:1:1,1)", "*.k_proj");
  auto rows = RowsByOp();
  const v1::ComparisonRow& fused = rows.at("l.0.qkv");
  EXPECT_EQ(fused.verdict(), v1::SKIPPED);
  EXPECT_TRUE(fused.not_compared());
  EXPECT_EQ(fused.reason(),
            "in run t: not all of it is compared in l.0.q_proj, l.0.k_proj");
  EXPECT_EQ(comparison_.not_compared_count(), 1);
  // The third part has no counterpart.
  Add(false, "*.qkv", "split(-1,2:1:1,2)", "*.x_proj");
  rows = RowsByOp();
  EXPECT_EQ(rows.at("l.0.x_proj").verdict(), v1::UNMATCHED);
  EXPECT_TRUE(rows.at("l.0.qkv").not_compared());
}

TEST_P(FusedTest, OnlyAPartOfAConcatenatedTensorIsCompared) {
  Record(0);
  Add(true, "*.q_proj", "concat(-1,*.k_proj,*.v_proj).slice(-1,0:3)", "*.qkv");
  Add(false, "*.qkv", "slice(-1,0:3)");
  const auto rows = RowsByOp();
  EXPECT_EQ(rows.at("l.0.qkv").verdict(), v1::PASS)
      << rows.at("l.0.qkv").reason();
  EXPECT_FALSE(rows.at("l.0.q_proj").not_compared());
  EXPECT_FALSE(rows.at("l.0.k_proj").not_compared());
  EXPECT_TRUE(rows.at("l.0.v_proj").not_compared());
}

TEST_P(FusedTest, TensorsAreConcatenated) {
  Record(0);
  Add(true, "*.q_proj", "concat(-1,*.k_proj,*.v_proj)", "*.qkv");
  const auto rows = RowsByOp();
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows.at("l.0.qkv").verdict(), v1::PASS)
      << rows.at("l.0.qkv").reason();
  EXPECT_EQ(rows.at("l.0.qkv").golden().max(), 14);
  for (const char* op : {"l.0.q_proj", "l.0.k_proj", "l.0.v_proj"}) {
    EXPECT_EQ(rows.at(op).verdict(), v1::SKIPPED);
    EXPECT_THAT(rows.at(op).reason(), HasSubstr("compared in l.0.qkv"));
  }
}

TEST_P(FusedTest, AMissingTensorIsAReason) {
  Record(0);
  Add(true, "*.q_proj", "concat(-1,*.k_proj,*.x_proj)", "*.qkv");
  const auto rows = RowsByOp();
  EXPECT_EQ(rows.at("l.0.qkv").verdict(), v1::SKIPPED);
  EXPECT_TRUE(rows.at("l.0.qkv").not_compared());
  EXPECT_THAT(rows.at("l.0.qkv").reason(),
              HasSubstr("*.x_proj@output/0 was not recorded"));
}

TEST_P(ViewRowsTest, TermsAreAdded) {
  golden_.Record(Floats("norm", {3, 5}));
  target_.Record(Floats("norm", {1, 2}));
  RecordedTensor residual = Floats("norm", {2, 3});
  residual.index = "1";
  target_.Record(residual);
  Add(false, "norm", "sum(@output/1)").set_index("0");
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].target().max(), 5);
  EXPECT_EQ(rows[1].verdict(), v1::SKIPPED);
  EXPECT_THAT(rows[1].reason(), HasSubstr("compared in norm"));
}

// The type of a computed view is not a type of the run.
TEST_P(ViewRowsTest, ASumHasThePrecisionOfItsTerms) {
  golden_.Record(Bfloats("norm", {3, 5, 1, 2}));
  target_.Record(Bfloats("norm", {1, 2, 1, 1}));
  RecordedTensor residual = Bfloats("norm", {2, 9, 0, 1});
  residual.index = "1";
  target_.Record(residual);
  Add(false, "norm", "sum(@output/1)").set_index("0");
  const auto rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::FAIL);
  EXPECT_EQ(rows[0].target().dtype(), v1::D_TYPE_FLOAT32);
  ASSERT_EQ(comparison_.makers_size(), 1);
  EXPECT_THAT(comparison_.makers(0).note(), Not(HasSubstr("from here on")));
}

TEST_P(ViewRowsTest, AViewThatDoesNotFitIsSkippedWithAReason) {
  golden_.Record(Shaped("op", {1, 2, 3, 4}, {2, 2}));
  target_.Record(Shaped("op", {1, 2, 3, 4}, {2, 2}));
  Add(false, "*", "permute(1,0,2)");
  const auto rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::SKIPPED);
  EXPECT_TRUE(rows[0].not_compared());
  EXPECT_EQ(rows[0].reason(),
            "target view permute(1,0,2): permute(1,0,2) does not fit [2,2]: it "
            "has no dimension 2");
}

TEST_P(FusedTest, AViewThatDoesNotFitIsAReasonWithoutACounterpart) {
  Record(0);
  Add(false, "*.qkv", "split(-1,2:1:2,0)", "*.other");
  const auto rows = RowsByOp();
  EXPECT_EQ(rows.at("l.0.other").verdict(), v1::UNMATCHED);
  EXPECT_THAT(rows.at("l.0.other").reason(),
              HasSubstr("only in run t; target view split(-1,2:1:2,0): "
                        "split(-1,2:1:2,0) does not fit [2,4]"));
}

// A layout has the name and the dimensions of the recorded tensor.
TEST_P(ViewRowsTest, AViewHasNoHintForALayout) {
  golden_.Record(Shaped("op", {1, 2, 3, 4, 5, 6, 7, 8}, {4, 2}));
  for (const int rank : {0, 1}) {
    RecordedTensor piece = Shaped("fused", {1, 3, 2, 4}, {2, 2});
    piece.rank = rank;
    target_.Record(piece);
  }
  Add(false, "fused", "transpose(0,1)", "op");
  for (const v1::ComparisonRow& row : Rows()) {
    EXPECT_EQ(row.layout_hint(), "");
  }
}

// Two empty selections would be equal.
TEST_P(ViewRowsTest, AViewOfNoElementsIsSkipped) {
  golden_.Record(Floats("op", {1, 2}));
  target_.Record(Floats("op", {3, 4}));
  Add(true, "op", "slice(0,1:1)");
  Add(false, "op", "slice(0,1:1)");
  const auto rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::SKIPPED);
  EXPECT_THAT(rows[0].reason(), HasSubstr("selects no elements of [2]"));
}

// The filter selects golden names.
TEST_P(FusedTest, AFilterSelectsTheNamesOfViews) {
  Record(0.5F);
  Add(false, "*.qkv", "split(-1,2:1:1,1)", "*.k_proj");
  plan_.selector.op_patterns = {"*.k_proj"};
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].op(), "l.0.k_proj");
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
}

TEST_P(FusedTest, AFilterSelectsTheNamesOfGoldenViews) {
  Record(0.5F);
  // The fused run is the golden one.
  std::swap(plan_.golden_run, plan_.target_run);
  Add(true, "*.qkv", "split(-1,2:1:1,1)", "*.k_proj");
  plan_.selector.op_patterns = {"*.k_proj"};
  auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].op(), "l.0.k_proj");
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  // The filter does not remove tensors that a view reads.
  std::swap(plan_.golden_run, plan_.target_run);
  matching_.clear_golden_views();
  Add(true, "*.q_proj", "concat(-1,*.k_proj,*.v_proj)", "*.qkv");
  plan_.selector.op_patterns = {"*.qkv"};
  rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].op(), "l.0.qkv");
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
}

TEST_P(ViewRowsTest, AViewThatMatchesNothingIsReported) {
  golden_.Record(Floats("op", {1, 2}));
  target_.Record(Floats("op", {1, 2}));
  Add(true, "no", "flatten").set_io(v1::IO_OUTPUT);
  Add(false, "op", "flatten");
  Rows();
  EXPECT_THAT(comparison_.idle_rules(),
              ElementsAre("--golden-view 'no@output=flatten'"));
  matching_.mutable_golden_views(0)->clear_io();
  matching_.mutable_golden_views(0)->set_index("3");
  Rows();
  EXPECT_THAT(comparison_.idle_rules(),
              ElementsAre("--golden-view 'no@*/3=flatten'"));
}

// All views with another name apply up to the first one that replaces the
// tensor.
TEST_P(ViewRowsTest, LaterViewsOfAReplacedTensorDoNotApply) {
  golden_.Record(Floats("op", {1, 2}));
  target_.Record(Floats("op", {1, 2}));
  Add(false, "op", "slice(0,0:1)", "first");
  Add(false, "op", "flatten");
  Add(false, "op", "slice(0,0:1)", "second");
  const auto rows = RowsByOp();
  EXPECT_THAT(rows, SizeIs(2));
  EXPECT_TRUE(rows.contains("first"));
  EXPECT_THAT(comparison_.idle_rules(),
              ElementsAre("--target-view 'op=slice(0,0:1) as second'"));
}

TEST_P(ViewRowsTest, ViewsApplyToWholeTensors) {
  golden_.Record(Shaped("op", {1, 2, 3, 4, 5, 6, 7, 8}, {2, 4}));
  RecordedTensor shard = Shaped("op", {1, 5, 2, 6}, {2, 2});
  target_.Record(shard);
  shard = Shaped("op", {3, 7, 4, 8}, {2, 2});
  shard.rank = 1;
  target_.Record(shard);
  v1::Layout& layout = *matching_.add_target_layouts();
  layout.set_op_pattern("op");
  layout.set_kind(v1::Layout::CONCAT);
  Add(false, "op", "transpose(0,1)");
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].target().layout(), "concat(0)");
  EXPECT_EQ(rows[0].target().max(), 8);
}

// The elements of a sum have a wider type than its shards.
TEST_P(ViewRowsTest, ViewsApplyToSumsOfShards) {
  const auto record = [](RunRecorder& run, float factor) {
    std::vector<float> values(24, 1);
    for (int32_t rank = 0; rank < 2; ++rank) {
      for (size_t i = 0; i < 24; ++i) {
        const bool is_changed = rank == 1 && i >= 12;
        values[i] = static_cast<float>(i) * (is_changed ? factor : 1);
      }
      RecordedTensor shard = Bfloats("op", values);
      shard.shape = {4, 6};
      shard.rank = rank;
      run.Record(shard);
    }
  };
  record(golden_, 1);
  record(target_, 5);
  for (v1::Layout* layout :
       {matching_.add_golden_layouts(), matching_.add_target_layouts()}) {
    layout->set_op_pattern("op");
    layout->set_kind(v1::Layout::SUM);
  }
  Add(true, "op", "transpose(0,1)");
  Add(false, "op", "transpose(0,1)");
  auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::FAIL);
  EXPECT_EQ(rows[0].golden().max(), 46);
  EXPECT_EQ(rows[0].target().max(), 138);
  // A view that only changes the shape reads the sum itself.
  for (v1::View* view :
       {matching_.mutable_golden_views(0), matching_.mutable_target_views(0)}) {
    view->set_view("flatten");
  }
  rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::FAIL);
  EXPECT_EQ(rows[0].target().max(), 138);
}

// A sum of float32 elements is as precise as its bfloat16 shards.
TEST_P(ViewRowsTest, TheToleranceOfASumIsThatOfItsShards) {
  const auto record = [](RunRecorder& run, std::vector<float> values) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      RecordedTensor shard = Bfloats("op", values);
      shard.shape = {2, 2};
      shard.rank = rank;
      run.Record(shard);
    }
  };
  record(golden_, {1, 2, 3, 4});
  record(target_, {1.0078125F, 3, 2, 4});
  for (v1::Layout* layout :
       {matching_.add_golden_layouts(), matching_.add_target_layouts()}) {
    layout->set_op_pattern("op");
    layout->set_kind(v1::Layout::SUM);
  }
  Add(false, "op", "transpose(0,1)");
  const auto rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].target().dtype(), v1::D_TYPE_FLOAT32);
}

TEST_P(ViewRowsTest, SummariesOfAPermutedTensorProveAFailure) {
  RecordedTensor golden = Shaped("op", {1, 2, 3, 4, 5, 6}, {2, 3});
  RecordedTensor target = Shaped("op", {1, 4, 2, 5, 3, 60}, {3, 2});
  golden.chunk_flags = target.chunk_flags = chunk::kSummaryOnlyFlag;
  golden_.Record(golden);
  target_.Record(target);
  Add(false, "op", "permute(1,0)");
  auto rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::FAIL);
  EXPECT_THAT(rows[0].reason(), HasSubstr("summaries"));
  // The summary of a part is not known.
  matching_.clear_target_views();
  Add(true, "op", "slice(1,0:2)");
  Add(false, "op", "slice(0,0:2)");
  rows = Rows();
  EXPECT_EQ(rows.at(0).verdict(), v1::SKIPPED);
  EXPECT_TRUE(rows[0].not_compared());
}

TEST_P(ViewRowsTest, BytesThatAreNotKeptDoNotPass) {
  RecordedTensor golden = Shaped("op", {1, 2, 3, 4}, {2, 2});
  golden.chunk_flags = chunk::kSummaryOnlyFlag;
  golden_.Record(golden);
  target_.Record(Shaped("op", {1, 3, 2, 4}, {2, 2}));
  Add(false, "op", "permute(1,0)");
  EXPECT_EQ(Rows().at(0).verdict(), v1::SKIPPED);
}

TEST_P(ViewRowsTest, InvalidViewsAreRefused) {
  const auto error = [this] {
    const auto rules = MatchRules::Create(matching_);
    EXPECT_FALSE(rules.ok());
    return std::string(Message(rules.status()));
  };
  Add(true, "op", "twist");
  EXPECT_THAT(error(), HasSubstr("matching.golden_views[0].view: at 1 of"));
  matching_.mutable_golden_views(0)->set_view("concat(0,*.a)");
  EXPECT_THAT(error(), HasSubstr("more `*` than the pattern"));
  matching_.mutable_golden_views(0)->set_view("flatten");
  matching_.mutable_golden_views(0)->set_as_op("*");
  EXPECT_THAT(error(), HasSubstr("matching.golden_views[0].as_op"));
  matching_.mutable_golden_views(0)->clear_as_op();
  matching_.mutable_golden_views(0)->clear_op_pattern();
  EXPECT_THAT(error(), HasSubstr("op_pattern"));
  matching_.clear_golden_views();
  for (int i = 0; i <= kViewsMax; ++i) Add(false, "op", "flatten");
  EXPECT_THAT(error(), HasSubstr("257 of them"));
}

}  // namespace
}  // namespace msitd::compare
