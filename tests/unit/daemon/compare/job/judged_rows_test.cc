// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/judged_rows.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/judge/stored_row.h"
#include "daemon/compare/judge/stored_row_judge.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/row_observer.h"

namespace msitd::compare {
namespace {

// Several batches, and a part of one.
constexpr int64_t kRows = 9001;

void DescribeSide(int64_t number, v1::ComparedTensor& out) {
  out.set_name("runs/r/ops/op" + std::to_string(number % 50));
  out.set_dtype(static_cast<v1::DType>(DType::kFloat32));
  out.set_kind(static_cast<v1::RecordKind>(RecordKind::kTensor));
  out.add_shape(2);
  out.add_shape(number % 3 + 1);
  out.set_nan_count(number % 401 == 0 ? 1 : 0);
  out.set_infinity_count(0);
  out.set_min(-1);
  out.set_max(static_cast<double>(number % 7));
  out.set_l2_norm(3);
}

// Returns a row of one of several forms. Errors grow within a token.
v1::ComparisonRow RowOf(int64_t number) {
  v1::ComparisonRow row;
  row.set_row(number);
  row.set_rank(static_cast<int32_t>(number % 2));
  row.set_token(number / 500);
  row.set_op("op" + std::to_string(number % 50));
  row.set_sequence(number);
  row.set_predicate("nl2 <= 0.5");
  row.set_verdict(v1::PASS);
  DescribeSide(number, *row.mutable_golden());
  if (number % 97 == 0) {
    row.set_verdict(v1::UNMATCHED);
    return row;
  }
  DescribeSide(number, *row.mutable_target());
  if (number % 89 == 0) {
    row.set_verdict(v1::SKIPPED);
    row.set_reason("its bytes were not kept");
    return row;
  }
  if (number % 5 == 0) {
    row.set_bitwise_equal(true);
    return row;
  }
  if (number % 83 == 0) row.add_watches(0);
  for (const char* const metric : {"max_abs", "nl2"}) {
    v1::MetricValue& value = *row.add_metrics();
    value.set_metric(metric);
    value.set_value(static_cast<double>(number % 500) / 500);
  }
  row.set_verdict(number % 500 > 250 ? v1::FAIL : v1::PASS);
  return row;
}

Policy PolicyOf(const std::string& predicate) {
  const std::vector<PolicyRule> rules = {{"*", predicate}};
  auto policy = Policy::Create(rules);
  EXPECT_TRUE(policy.ok()) << policy.status();
  return *std::move(policy);
}

class JudgedRowsTest : public ::testing::Test {
 protected:
  JudgedRowsTest() {
    std::vector<std::string> bytes;
    for (int64_t i = 0; i < kRows; ++i) {
      bytes.push_back(RowOf(i).SerializeAsString());
    }
    source_.id = store_.CreateComparison("document", {}).value();
    EXPECT_TRUE(store_.PutComparisonRows(source_.id, 0, bytes).ok());
    source_.comparison.set_name("c-000001");
    source_.comparison.set_pass_count(kRows);
    source_.comparison.mutable_judge_context();
    source_.comparison.mutable_policy()->add_rules()->set_predicate(
        "nl2 <= 0.5");
    source_.policy = PolicyOf("nl2 <= 0.5");
  }

  absl::Status Judge(const std::string& predicate, RowObserver& observer) {
    ComparisonPlan plan;
    plan.policy = PolicyOf(predicate);
    plan.judged = std::make_shared<const JudgedSource>(source_);
    v1::Policy request;
    request.add_rules()->set_predicate(predicate);
    observer.comparison = JudgedHeader(source_.comparison, request);
    return JudgeStoredRows(store_, plan, observer);
  }

  testing::FakeStore store_;
  JudgedSource source_;
};

TEST_F(JudgedRowsTest, RowsAreThoseOfOneThread) {
  for (const std::string predicate :
       {"nl2 <= 0.5", "nl2 <= 0.1", "pearson >= 0.5 and max_abs < 0.9"}) {
    SCOPED_TRACE(predicate);
    const Policy policy = PolicyOf(predicate);
    const StoredRowJudge judge(source_.policy, policy,
                               source_.comparison.judge_context(),
                               predicate == "nl2 <= 0.5");
    RowObserver observer;
    ASSERT_TRUE(Judge(predicate, observer).ok());
    ASSERT_EQ(observer.rows.size(), static_cast<size_t>(kRows));
    v1::Comparison expected;
    StoredRow stored;
    for (int64_t i = 0; i < kRows; ++i) {
      ASSERT_TRUE(stored.Parse(RowOf(i).SerializeAsString()));
      judge.Judge(stored);
      stored.row().clear_watches();
      v1::ComparisonRow row;
      ASSERT_TRUE(row.ParseFromString(stored.Serialize()));
      ASSERT_EQ(observer.rows[static_cast<size_t>(i)].SerializeAsString(),
                row.SerializeAsString());
      AccountRow(row, expected);
    }
    const v1::Comparison& actual = observer.comparison;
    EXPECT_EQ(actual.pass_count(), expected.pass_count());
    EXPECT_EQ(actual.fail_count(), expected.fail_count());
    EXPECT_EQ(actual.skipped_count(), expected.skipped_count());
    EXPECT_EQ(actual.unmatched_count(), expected.unmatched_count());
    EXPECT_EQ(actual.both_non_finite_count(), expected.both_non_finite_count());
    EXPECT_GT(actual.pass_count(), 0);
    EXPECT_GT(actual.fail_count(), 0);
    ASSERT_TRUE(actual.has_first_divergence());
    EXPECT_EQ(
        actual.first_divergence().SerializeAsString(),
        observer.rows[static_cast<size_t>(actual.first_divergence().row())]
            .SerializeAsString());
    // Each run of the threads has the same result.
    RowObserver again;
    ASSERT_TRUE(Judge(predicate, again).ok());
    EXPECT_EQ(again.comparison.DebugString(), actual.DebugString());
  }
}

TEST_F(JudgedRowsTest, CancelledBetweenBatches) {
  int checks = 0;
  RowObserver observer;
  observer.is_cancelled = [&checks] { return ++checks == 3; };
  EXPECT_EQ(Judge("nl2 <= 0.1", observer).code(), absl::StatusCode::kCancelled);
  EXPECT_GT(observer.rows.size(), 0u);
  EXPECT_LT(observer.rows.size(), static_cast<size_t>(kRows));
}

TEST_F(JudgedRowsTest, RowsBeforeADamagedOneAreKept) {
  constexpr int64_t kDamaged = 7000;
  // A name that is not UTF-8, in a field that is only copied.
  v1::ComparisonRow row = RowOf(kDamaged + 1);
  row.set_row(kDamaged);
  std::string bytes = row.SerializeAsString();
  bytes[bytes.find("runs/r")] = '\xff';
  const std::vector<std::string> rows = {bytes};
  ASSERT_TRUE(store_.PutComparisonRows(source_.id, kDamaged, rows).ok());
  RowObserver observer;
  const absl::Status status = Judge("nl2 <= 0.1", observer);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "comparison c-000001: row 7000 cannot be read");
  EXPECT_LE(observer.rows.size(), static_cast<size_t>(kDamaged));
  EXPECT_GT(observer.rows.size(), 0u);
}

}  // namespace
}  // namespace msitd::compare
