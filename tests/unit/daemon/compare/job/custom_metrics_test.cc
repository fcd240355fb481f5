// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/custom_metrics.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/compare/job/comparison_jobs.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/await_comparison.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

void Add(RowMetricsList& rows, int64_t row, const std::string& metric,
         double value, const std::string& text = "") {
  v1::AddRowMetricsRequest::RowMetrics& added = *rows.Add();
  added.set_row(row);
  v1::CustomMetric& custom = *added.add_metrics();
  custom.set_metric(metric);
  custom.set_value(value);
  custom.set_text(text);
}

RowMetricsList One(int64_t row, const std::string& metric, double value = 1,
                   const std::string& text = "") {
  RowMetricsList rows;
  Add(rows, row, metric, value, text);
  return rows;
}

// A comparison of five pairs, of which the third one fails.
class CustomMetricsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (int i = 0; i < 5; ++i) {
      const std::string op = fmt::format("op{}", i);
      golden_.Record(Floats(op, {1}));
      target_.Record(Floats(op, {i == 2 ? 2.0F : 1.0F}));
    }
    Open();
  }

  void Open() {
    jobs_.reset();
    jobs_ = *ComparisonJobs::Create(store_, store_, store_.attachments(), {});
  }

  void Compare() {
    ASSERT_TRUE(jobs_->Start({}, {"g", "t", {}, {}}).ok());
    EXPECT_EQ(AwaitEnd(*jobs_, 1).state(), v1::Comparison::DONE);
  }

  std::string ReasonOf(const RowMetricsList& rows) {
    return std::string(Reason(jobs_->AddRowMetrics(1, rows).status()));
  }

  std::vector<std::string> Names() {
    const v1::Comparison comparison = jobs_->Get(1)->comparison;
    return {comparison.custom_metrics().begin(),
            comparison.custom_metrics().end()};
  }

  v1::ComparisonRow Row(int64_t row) { return jobs_->Rows(1, row, 1)->at(0); }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  std::unique_ptr<ComparisonJobs> jobs_;
};

TEST_F(CustomMetricsTest, MetricsAreKeptWithTheirRows) {
  Compare();
  RowMetricsList rows;
  Add(rows, 0, "angle", 0.5, "of the first");
  Add(rows, 2, "angle", 2.5);
  Add(rows, 3, "angle", 3.5);
  v1::CustomMetric& none = *rows[2].add_metrics();
  none.set_metric("ssim");
  none.set_text("no picture");
  const auto comparison = jobs_->AddRowMetrics(1, rows);
  ASSERT_TRUE(comparison.ok()) << comparison.status();
  EXPECT_THAT(comparison->custom_metrics(), ElementsAre("angle", "ssim"));
  EXPECT_EQ(comparison->fail_count(), 1);

  Open();
  EXPECT_THAT(Names(), ElementsAre("angle", "ssim"));
  EXPECT_EQ(Row(0).custom_metrics(0).value(), 0.5);
  EXPECT_EQ(Row(0).custom_metrics(0).text(), "of the first");
  EXPECT_EQ(Row(1).custom_metrics_size(), 0);
  EXPECT_EQ(Row(2).custom_metrics(0).value(), 2.5);
  ASSERT_EQ(Row(3).custom_metrics_size(), 2);
  EXPECT_FALSE(Row(3).custom_metrics(1).has_value());
  EXPECT_EQ(Row(3).custom_metrics(1).text(), "no picture");
  // The row that is stored with the comparison has them as well.
  const v1::ComparisonRow first = jobs_->Get(1)->comparison.first_divergence();
  ASSERT_EQ(first.custom_metrics_size(), 1);
  EXPECT_EQ(first.custom_metrics(0).value(), 2.5);
}

TEST_F(CustomMetricsTest, AMetricOfTheSameNameIsReplacedInItsPlace) {
  Compare();
  ASSERT_TRUE(jobs_->AddRowMetrics(1, One(2, "a", 1, "old")).ok());
  ASSERT_TRUE(jobs_->AddRowMetrics(1, One(2, "b", 2)).ok());
  RowMetricsList again;
  again.Add()->set_row(2);
  again[0].add_metrics()->set_metric("a");
  ASSERT_TRUE(jobs_->AddRowMetrics(1, again).ok());
  const v1::ComparisonRow row = Row(2);
  ASSERT_EQ(row.custom_metrics_size(), 2);
  EXPECT_EQ(row.custom_metrics(0).metric(), "a");
  EXPECT_FALSE(row.custom_metrics(0).has_value());
  EXPECT_EQ(row.custom_metrics(0).text(), "");
  EXPECT_THAT(Names(), ElementsAre("a", "b"));
  EXPECT_EQ(
      jobs_->Get(1)->comparison.first_divergence().custom_metrics(1).value(),
      2);
}

TEST_F(CustomMetricsTest, BadRequestsAreRefusedAndAddNothing) {
  Compare();
  RowMetricsList twice = One(1, "a");
  Add(twice, 1, "b", 1);
  RowMetricsList back = One(2, "a");
  Add(back, 1, "a", 1);
  RowMetricsList same = One(1, "a");
  *same[0].add_metrics() = same[0].metrics(0);
  RowMetricsList many = One(1, "a0");
  for (int i = 1; i <= kCustomMetricsMax; ++i) {
    many[0].add_metrics()->set_metric(fmt::format("a{}", i));
  }
  RowMetricsList good_then_bad = One(0, "a");
  Add(good_then_bad, 5, "a", 1);
  RowMetricsList rows;
  for (int i = 0; i <= kCustomMetricRowsMax; ++i) Add(rows, i, "a", 1);
  const RowMetricsList all[] = {twice,
                                back,
                                same,
                                many,
                                good_then_bad,
                                rows,
                                One(-1, "a"),
                                One(5, "a"),
                                One(1, ""),
                                One(1, "a b"),
                                One(1, "a:b"),
                                One(1, "\u00e4"),
                                One(1, "cosine"),
                                One(1, "verdict"),
                                One(1, "golden_max"),
                                One(1, std::string(65, 'a')),
                                One(1, "a", 1, std::string(1025, 'x'))};
  for (const RowMetricsList& bad : all) {
    EXPECT_EQ(ReasonOf(bad), "FIELD_INVALID") << bad[0].ShortDebugString();
  }
  EXPECT_THAT(Names(), IsEmpty());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Row(i).custom_metrics_size(), 0);

  // The largest request that the limits allow.
  many[0].mutable_metrics()->RemoveLast();
  EXPECT_EQ(ReasonOf(many), "");
  EXPECT_EQ(ReasonOf(One(4, "a1", 1, std::string(1024, 'x'))), "");
  EXPECT_EQ(ReasonOf(RowMetricsList()), "");
  // One metric more than a comparison may have.
  EXPECT_EQ(ReasonOf(One(4, std::string(64, '-'))), "FIELD_INVALID");
  EXPECT_EQ(Row(4).custom_metrics_size(), 1);
}

TEST_F(CustomMetricsTest, AComparisonThatHasNotEndedIsRefused) {
  store_.BlockReads();
  ASSERT_TRUE(jobs_->Start({}, {"g", "t", {}, {}}).ok());
  store_.AwaitRead();
  const absl::Status status = jobs_->AddRowMetrics(1, One(0, "a")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Reason(status), "FIELD_INVALID");
  store_.UnblockReads();
  AwaitEnd(*jobs_, 1);
  // Metrics are accepted as soon as the end of the comparison is visible.
  EXPECT_EQ(ReasonOf(One(0, "a")), "");
  EXPECT_THAT(Names(), ElementsAre("a"));
}

TEST_F(CustomMetricsTest, UnknownComparisonIsNotFound) {
  EXPECT_EQ(Reason(jobs_->AddRowMetrics(7, One(0, "a")).status()),
            "COMPARISON_NOT_FOUND");
}

TEST_F(CustomMetricsTest, CallersAtOnceLoseNothing) {
  Compare();
  constexpr int kCallers = 8;
  constexpr int kRounds = 50;
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([this, caller] {
      for (int round = 0; round < kRounds; ++round) {
        EXPECT_TRUE(
            jobs_
                ->AddRowMetrics(
                    1, One(round % 5, fmt::format("m{}", caller), round))
                .ok());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(Names().size(), size_t{kCallers});
  for (int row = 0; row < 5; ++row) {
    const v1::ComparisonRow stored = Row(row);
    ASSERT_EQ(stored.custom_metrics_size(), kCallers);
    for (const v1::CustomMetric& metric : stored.custom_metrics()) {
      EXPECT_EQ(metric.value(), kRounds - 5 + row);
    }
  }
}

TEST_F(CustomMetricsTest, NothingOfADeletedComparisonIsWritten) {
  Compare();
  std::vector<std::thread> callers;
  for (const char* name : {"a", "b"}) {
    callers.emplace_back([this, name] {
      absl::Status status;
      while (status.ok()) {
        status = jobs_->AddRowMetrics(1, One(0, name)).status();
      }
      EXPECT_EQ(Reason(status), "COMPARISON_NOT_FOUND") << status;
    });
  }
  EXPECT_TRUE(jobs_->Delete(1).ok());
  for (std::thread& caller : callers) caller.join();
  EXPECT_TRUE(jobs_->List(0, 10)->empty());
}

TEST_F(CustomMetricsTest, AStoreThatTakesNothingIsAnError) {
  Compare();
  store_.FailComparisonWrites(WithReason(
      absl::ResourceExhaustedError("disk full"), ErrorReason::kDiskFull));
  const absl::Status status = jobs_->AddRowMetrics(1, One(0, "a")).status();
  EXPECT_EQ(Reason(status), "DISK_FULL");
  EXPECT_THAT(std::string(Message(status)), HasSubstr("disk full"));
}

}  // namespace
}  // namespace msitd::compare
