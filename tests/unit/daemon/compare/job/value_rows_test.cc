// SPDX-License-Identifier: Apache-2.0
// Tests of rows of comparisons that include values.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <utility>

#include "daemon/compare/job/comparison_engine.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::StartsWith;

RecordedTensor Text(RecordKind kind, std::string value) {
  RecordedTensor out;
  out.dtype = DType::kUint8;
  out.shape = {0};
  out.io = Io::kInput;
  out.kind = kind;
  out.value = std::move(value);
  return out;
}

RecordedTensor Number(double number) {
  RecordedTensor out;
  out.dtype = DType::kFloat64;
  out.bytes = BytesOf<double>({number});
  out.io = Io::kInput;
  out.kind = RecordKind::kNumber;
  out.value = std::to_string(number);
  return out;
}

RecordedTensor Statistics(std::string text, int64_t token = 0) {
  RecordedTensor out;
  out.shape = {2};
  out.token = token;
  out.kind = RecordKind::kStatistics;
  out.value = std::move(text);
  return out;
}

class ValueRowsTest : public ::testing::Test {
 protected:
  ValueRowsTest() {
    for (int number = 0; number < kRecordKindCount; ++number) {
      const auto kind = static_cast<RecordKind>(number);
      if (kind != RecordKind::kDocument) plan_.selector.kinds.push_back(kind);
    }
  }

  v1::ComparisonRow RowOf(const RecordedTensor& target,
                          const RecordedTensor& golden) {
    golden_.Record(golden);
    target_.Record(target);
    RowObserver observer;
    const absl::Status status = ComparisonEngine(store_, plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(observer.rows.size(), 1u);
    return observer.rows.empty() ? v1::ComparisonRow() : observer.rows.front();
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  ComparisonPlan plan_{"g", "t", {}, {}};
};

TEST_F(ValueRowsTest, EqualTextsPass) {
  const v1::ComparisonRow row =
      RowOf(Text(RecordKind::kText, "sum"), Text(RecordKind::kText, "sum"));
  EXPECT_EQ(row.verdict(), v1::PASS);
  EXPECT_TRUE(row.bitwise_equal());
  EXPECT_EQ(row.reason(), "");
}

TEST_F(ValueRowsTest, OtherTextsFailAndAreShown) {
  const v1::ComparisonRow row =
      RowOf(Text(RecordKind::kDType, "torch.bfloat16"),
            Text(RecordKind::kDType, "torch.float32"));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(row.reason(),
            "the values differ: target torch.bfloat16, golden torch.float32");
}

TEST_F(ValueRowsTest, OtherKindsFail) {
  const v1::ComparisonRow row =
      RowOf(Text(RecordKind::kNone, "None"), Text(RecordKind::kText, "None"));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(row.reason(), "the values differ: target None, golden \"None\"");
}

TEST_F(ValueRowsTest, ATensorIsNoNumber) {
  RecordedTensor tensor = Number(2);
  tensor.kind = RecordKind::kTensor;
  tensor.value.reset();
  const v1::ComparisonRow row = RowOf(tensor, Number(2));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(row.reason(),
            "the values differ: target a tensor, golden 2.000000");
}

TEST_F(ValueRowsTest, NumbersAreJudgedByThePolicy) {
  const v1::ComparisonRow row = RowOf(Number(2.5), Number(2));
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), StartsWith("nl2 = "));
  EXPECT_EQ(MetricOf(row, "max_abs"), 0.5);
}

// Layouts do not split values, even if their pattern matches.
TEST_F(ValueRowsTest, RanksOfALayoutHaveTheSameValue) {
  v1::Matching matching;
  v1::Layout& layout = *matching.add_golden_layouts();
  layout.set_op_pattern("*");
  layout.set_kind(v1::Layout::CONCAT);
  layout.set_dim(-1);
  *matching.add_target_layouts() = layout;
  plan_.matching = *MatchRules::Create(matching);

  const RecordedTensor a = Text(RecordKind::kDType, "torch.float32");
  const RecordedTensor b = Text(RecordKind::kDType, "torch.bfloat16");
  const RecordedTensor none = Text(RecordKind::kNone, "None");
  const RecordedTensor text = Text(RecordKind::kText, "None");
  struct Case {
    const char* index;
    std::array<RecordedTensor, 2> golden;  // By rank.
    std::array<RecordedTensor, 2> target;
    v1::Verdict verdict;
  };
  Case cases[] = {
      {"0", {a, a}, {a, a}, v1::PASS},
      {"1", {a, a}, {b, b}, v1::FAIL},
      {"2", {a, a}, {a, b}, v1::FAIL},
      {"3", {Number(2), Number(2)}, {Number(2), Number(2)}, v1::PASS},
      {"4", {none, none}, {none, text}, v1::FAIL},
  };
  for (Case& c : cases) {
    for (int32_t rank = 0; rank < 2; ++rank) {
      for (auto [run, tensors] :
           {std::pair(&golden_, &c.golden), std::pair(&target_, &c.target)}) {
        RecordedTensor& tensor = tensors->at(rank);
        tensor.index = c.index;
        tensor.rank = rank;
        run->Record(tensor);
      }
    }
  }
  RowObserver observer;
  const absl::Status status = ComparisonEngine(store_, plan_, observer).Run();
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(observer.rows.size(), std::size(cases));
  for (const Case& c : cases) {
    SCOPED_TRACE(c.index);
    const auto row =
        std::find_if(observer.rows.begin(), observer.rows.end(),
                     [&c](const auto& r) { return r.index() == c.index; });
    ASSERT_NE(row, observer.rows.end());
    EXPECT_EQ(row->verdict(), c.verdict) << row->reason();
  }
}

TEST_F(ValueRowsTest, WithoutKindsValuesHaveNoRows) {
  plan_.selector.kinds.clear();
  RecordedTensor tensor = Floats("other", {1});
  golden_.Record(Text(RecordKind::kText, "sum"));
  target_.Record(Text(RecordKind::kText, "mean"));
  const v1::ComparisonRow row = RowOf(tensor, tensor);
  EXPECT_EQ(row.op(), "other");
}

TEST_F(ValueRowsTest, StatisticsAreComparedAndCounted) {
  golden_.Record(Statistics("{\"max\": 1, \"nan_count\": 0}", 0));
  target_.Record(Statistics("{\"max\": 1, \"nan_count\": 0}", 0));
  golden_.Record(Statistics("{\"max\": 1}", 1));
  target_.Record(Statistics("{\"max\": 2}", 1));
  RowObserver observer;
  ASSERT_TRUE(ComparisonEngine(store_, plan_, observer).Run().ok());
  ASSERT_EQ(observer.rows.size(), 2u);
  const v1::ComparisonRow& pass = observer.rows[0];
  EXPECT_EQ(pass.verdict(), v1::PASS);
  EXPECT_EQ(pass.reason(), "statistics agree: max, nan_count");
  EXPECT_EQ(pass.golden().kind(), v1::RECORD_KIND_STATISTICS);
  EXPECT_EQ(pass.golden().value(), "{\"max\": 1, \"nan_count\": 0}");
  EXPECT_EQ(pass.golden().max(), 1);
  EXPECT_EQ(pass.golden().nan_count(), 0);
  EXPECT_FALSE(pass.golden().has_min());
  const v1::ComparisonRow& fail = observer.rows[1];
  EXPECT_EQ(fail.verdict(), v1::FAIL);
  EXPECT_EQ(MetricOf(fail, "nl2"), 1);
  EXPECT_FALSE(fail.predicate().empty());
  EXPECT_EQ(observer.comparison.first_divergence().token(), 1);
  EXPECT_EQ(observer.comparison.statistics_count(), 2);
  EXPECT_EQ(observer.comparison.hopeless_count(), 0);
  EXPECT_EQ(observer.comparison.total_count(), 2);
}

TEST_F(ValueRowsTest, RowsOfWhichAStatisticDecidedNothingAreCounted) {
  golden_.Record(Statistics("{\"max\": 1, \"min\": 0}", 0));
  target_.Record(Statistics("{\"max\": 1}", 0));
  golden_.Record(Statistics("{\"max\": 1}", 1));
  target_.Record(Statistics("{\"max\": 1}", 1));
  RowObserver observer;
  ASSERT_TRUE(ComparisonEngine(store_, plan_, observer).Run().ok());
  ASSERT_EQ(observer.rows.size(), 2u);
  EXPECT_TRUE(observer.rows[0].statistics_in_part());
  EXPECT_FALSE(observer.rows[1].statistics_in_part());
  EXPECT_EQ(observer.comparison.statistics_in_part_count(), 1);
}

TEST_F(ValueRowsTest, StatisticsMeetTensorsButNoValues) {
  RecordedTensor tensor = Floats("op", {1, 3});
  EXPECT_EQ(RowOf(tensor, Statistics("{\"max\": 3, \"mean\": 2}")).verdict(),
            v1::PASS);
  RecordedTensor text = Text(RecordKind::kText, "sum");
  text.io = Io::kOutput;
  text.token = 1;
  golden_.Record(text);
  target_.Record(Statistics("{}", 1));
  RowObserver observer;
  ASSERT_TRUE(ComparisonEngine(store_, plan_, observer).Run().ok());
  EXPECT_EQ(observer.rows[1].verdict(), v1::FAIL);
  EXPECT_EQ(observer.rows[1].reason(),
            "the values differ: target statistics, golden \"sum\"");
}

TEST_F(ValueRowsTest, StatisticsOfOtherShapesFail) {
  RecordedTensor other = Statistics("{\"max\": 1}");
  other.shape = {3};
  const v1::ComparisonRow row = RowOf(Statistics("{\"max\": 1}"), other);
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_THAT(row.reason(), StartsWith("shape: target [2], golden [3]"));
}

TEST_F(ValueRowsTest, RowsCarryKindsAndValues) {
  const v1::ComparisonRow row = RowOf(Text(RecordKind::kDType, "torch.float16"),
                                      Text(RecordKind::kText, "sum"));
  EXPECT_EQ(row.golden().kind(), v1::RECORD_KIND_TEXT);
  EXPECT_EQ(row.golden().value(), "sum");
  EXPECT_EQ(row.target().kind(), v1::RECORD_KIND_DTYPE);
  EXPECT_EQ(row.target().value(), "torch.float16");
}

TEST_F(ValueRowsTest, WhatWasNotAskedForIsCounted) {
  golden_.Record(Text(RecordKind::kText, "sum"));
  golden_.Record(Statistics("{}"));
  target_.Record(Floats("op", {1, 3}));
  const auto left_out = [this](std::vector<RecordKind> kinds) {
    plan_.selector.kinds = std::move(kinds);
    RowObserver observer;
    EXPECT_TRUE(ComparisonEngine(store_, plan_, observer).Run().ok());
    return std::pair(observer.comparison.golden_left_out_count(),
                     observer.comparison.target_left_out_count());
  };
  using Pair = std::pair<int64_t, int64_t>;
  EXPECT_EQ(left_out({}), Pair(2, 0));
  EXPECT_EQ(left_out({RecordKind::kTensor, RecordKind::kStatistics}),
            Pair(1, 0));
  EXPECT_EQ(left_out({RecordKind::kText}), Pair(1, 0));
  EXPECT_EQ(left_out({RecordKind::kText, RecordKind::kStatistics}), Pair(0, 0));
}

}  // namespace
}  // namespace msitd::compare
