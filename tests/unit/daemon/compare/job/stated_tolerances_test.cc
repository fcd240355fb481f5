// SPDX-License-Identifier: Apache-2.0
// Tests of rows of comparisons whose golden run states tolerances.
#include "daemon/compare/job/stated_tolerances.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "protos/base/tolerance_record.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;

// Returns the statement on output 0 of call 0 of an op.
RecordedTensor StatementOn(std::string op, std::string text) {
  RecordedTensor out;
  out.op = std::move(op);
  out.dtype = DType::kUint8;
  out.shape = {0};
  out.io = Io::kState;
  out.index = ToleranceIndexOf(Io::kOutput, "0");
  out.kind = RecordKind::kText;
  out.value = std::move(text);
  return out;
}

class StatedTolerancesTest : public ::testing::Test {
 protected:
  StatedTolerancesTest() { plan_.selector.ios = {Io::kOutput}; }

  RunRecorder& Golden(std::map<std::string, std::string> labels = {
                          {kTolerancesLabel, std::string(kStatedTolerances)}}) {
    if (!golden_.has_value()) golden_.emplace(store_, "g", std::move(labels));
    return *golden_;
  }

  std::map<std::string, v1::ComparisonRow> Compare() {
    RowObserver observer;
    const absl::Status status = ComparisonEngine(store_, plan_, observer).Run();
    EXPECT_TRUE(status.ok()) << status;
    std::map<std::string, v1::ComparisonRow> out;
    for (const v1::ComparisonRow& row : observer.rows) out[row.op()] = row;
    return out;
  }

  testing::FakeStore store_;
  std::optional<RunRecorder> golden_;
  RunRecorder target_{store_, "t"};
  ComparisonPlan plan_{"g", "t", {}, {}};
};

TEST_F(StatedTolerancesTest, DecideInPlaceOfTheDefaultPolicy) {
  for (const char* const op : {"tight", "loose", "plain"}) {
    Golden().Record(Floats(op, {1, 2}));
    target_.Record(Floats(op, {1, 2.00001f}));
  }
  Golden().Record(StatementOn("tight", "pass if nl2 < 1e-7"));
  Golden().Record(StatementOn("loose", "pass if nl2 < 1e-3"));
  const auto rows = Compare();
  EXPECT_EQ(rows.at("tight").verdict(), v1::FAIL);
  EXPECT_THAT(rows.at("tight").reason(), HasSubstr("needs < 1e-7"));
  EXPECT_EQ(rows.at("tight").predicate(), "nl2 < 1e-7");
  EXPECT_EQ(rows.at("loose").verdict(), v1::PASS);
  EXPECT_EQ(rows.at("loose").predicate(), "nl2 < 1e-3");
  EXPECT_EQ(rows.at("plain").verdict(), v1::PASS);
}

TEST_F(StatedTolerancesTest, AreIgnoredWithoutTheLabel) {
  Golden({}).Record(Floats("op", {1, 2}));
  target_.Record(Floats("op", {1, 2.00001f}));
  Golden().Record(StatementOn("op", "pass if nl2 < 1e-7"));
  EXPECT_EQ(Compare().at("op").verdict(), v1::PASS);
}

TEST_F(StatedTolerancesTest, GiveWayToARuleOfThePolicy) {
  plan_.policy = *Policy::Create(std::vector<PolicyRule>{{"op", "nl2 < 1"}});
  Golden().Record(Floats("op", {1, 2}));
  target_.Record(Floats("op", {1, 2.00001f}));
  Golden().Record(StatementOn("op", "pass if nl2 < 1e-7"));
  EXPECT_EQ(Compare().at("op").verdict(), v1::PASS);
}

TEST_F(StatedTolerancesTest, ExplainTensorsThatTheGoldenRunDoesNotHave) {
  for (const char* const op : {"random", "module", "lost"}) {
    target_.Record(Floats(op, {1}));
  }
  Golden().Record(StatementOn("random", "not checked: it is random"));
  Golden().Record(StatementOn("module", "covered: by its functions"));
  const auto rows = Compare();
  EXPECT_EQ(rows.at("random").verdict(), v1::SKIPPED);
  EXPECT_EQ(rows.at("random").reason(), "not checked: it is random");
  EXPECT_TRUE(rows.at("random").not_compared());
  EXPECT_EQ(rows.at("module").verdict(), v1::SKIPPED);
  EXPECT_FALSE(rows.at("module").not_compared());
  EXPECT_EQ(rows.at("lost").verdict(), v1::UNMATCHED);
}

TEST_F(StatedTolerancesTest, AStatementThatIsNotOneNeverPasses) {
  Golden().Record(Floats("op", {1}));
  target_.Record(Floats("op", {1}));
  Golden().Record(StatementOn("op", "pass if or not"));
  const v1::ComparisonRow row = Compare().at("op");
  EXPECT_EQ(row.verdict(), v1::SKIPPED);
  EXPECT_TRUE(row.not_compared());
}

TEST_F(StatedTolerancesTest, AreNotTensorsWithoutACounterpart) {
  plan_.selector = {};
  plan_.selector.kinds = {RecordKind::kTensor, RecordKind::kText};
  Golden().Record(Floats("op", {1}));
  target_.Record(Floats("op", {1}));
  RecordedTensor statement = StatementOn("op", "pass if nl2 < 1");
  Golden().Record(statement);
  RowObserver observer;
  ASSERT_TRUE(ComparisonEngine(store_, plan_, observer).Run().ok());
  ASSERT_EQ(observer.rows.size(), 2u);
  for (const v1::ComparisonRow& row : observer.rows) {
    EXPECT_EQ(row.verdict(), row.io() == v1::IO_STATE ? v1::SKIPPED : v1::PASS);
    EXPECT_FALSE(row.not_compared());
  }
}

}  // namespace
}  // namespace msitd::compare
