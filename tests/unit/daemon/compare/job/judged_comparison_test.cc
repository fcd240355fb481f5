// SPDX-License-Identifier: Apache-2.0

// Comparisons that judge the stored rows of another one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_jobs.h"
#include "daemon/compare/job/comparison_name.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/unit/daemon/compare/await_comparison.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

PolicySpec Tolerance(const std::string& predicate) {
  PolicySpec spec;
  spec.rules = {{"*", predicate}};
  return spec;
}

PolicySpec OfPreset(Preset preset) {
  PolicySpec spec;
  spec.preset = preset;
  return spec;
}

PolicySpec OfNumbers(double rtol, double atol) {
  PolicySpec spec;
  PolicyRule rule{"*"};
  rule.rtol = rtol;
  rule.atol = atol;
  spec.rules = {rule};
  return spec;
}

class JudgedComparisonTest : public ::testing::Test {
 protected:
  void SetUp() override { Open(); }

  void Open() {
    jobs_.reset();
    auto jobs =
        ComparisonJobs::Create(store_, store_, store_.attachments(), {});
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    jobs_ = *std::move(jobs);
  }

  void RecordPair(std::string_view op, const std::vector<float>& golden,
                  const std::vector<float>& target) {
    golden_.Record(Floats(op, golden));
    target_.Record(Floats(op, target));
  }

  static Policy MakePolicy(const PolicySpec& spec) {
    auto policy = Policy::Create(spec);
    EXPECT_TRUE(policy.ok()) << policy.status();
    return *std::move(policy);
  }

  // Compares the runs and returns the id of the comparison.
  uint64_t Compare(const PolicySpec& spec = {}) {
    ComparisonPlan plan{"g", "t", {}, {}};
    plan.policy = MakePolicy(spec);
    plan.selector.kinds = {RecordKind::kTensor, RecordKind::kStatistics};
    const auto started = jobs_->Start({}, std::move(plan));
    EXPECT_TRUE(started.ok()) << started.status();
    const uint64_t id = ParseComparisonName(started->name()).value();
    policies_[id] = spec;
    EXPECT_EQ(AwaitEnd(*jobs_, id).state(), v1::Comparison::DONE);
    return id;
  }

  absl::StatusOr<v1::Comparison> Start(uint64_t id, const PolicySpec& spec) {
    ComparisonJobs::JudgeRequest request;
    MSITD_ASSIGN_OR_RETURN(const ComparisonView view, jobs_->Get(id));
    request.source = {id, view.comparison, MakePolicy(policies_[id])};
    request.policy = MakePolicy(spec);
    auto started = jobs_->Judge(std::move(request));
    if (started.ok()) {
      policies_[ParseComparisonName(started->name()).value()] = spec;
    }
    return started;
  }

  uint64_t Judge(uint64_t id, const PolicySpec& spec) {
    const auto started = Start(id, spec);
    EXPECT_TRUE(started.ok()) << started.status();
    const uint64_t judged = ParseComparisonName(started->name()).value();
    const v1::Comparison ended = AwaitEnd(*jobs_, judged);
    EXPECT_EQ(ended.state(), v1::Comparison::DONE) << ended.error();
    return judged;
  }

  v1::Comparison Get(uint64_t id) { return jobs_->Get(id)->comparison; }

  std::vector<v1::ComparisonRow> Rows(uint64_t id) {
    auto rows = jobs_->Rows(id, 0, 100'000);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return *std::move(rows);
  }

  std::vector<v1::Verdict> Verdicts(uint64_t id) {
    std::vector<v1::Verdict> out;
    for (const v1::ComparisonRow& row : Rows(id)) out.push_back(row.verdict());
    return out;
  }

  // Expects that judging rows has the result of comparing the runs again.
  void ExpectAsCompared(uint64_t judged, const PolicySpec& spec) {
    const uint64_t compared = Compare(spec);
    EXPECT_EQ(Verdicts(judged), Verdicts(compared));
    const v1::Comparison a = Get(judged);
    const v1::Comparison b = Get(compared);
    EXPECT_EQ(a.pass_count(), b.pass_count());
    EXPECT_EQ(a.fail_count(), b.fail_count());
    EXPECT_EQ(a.unmatched_count(), b.unmatched_count());
    EXPECT_EQ(a.skipped_count(), b.skipped_count());
    EXPECT_EQ(a.total_count(), b.total_count());
    EXPECT_EQ(a.first_divergence().row(), b.first_divergence().row());
    EXPECT_EQ(a.first_inequality().row(), b.first_inequality().row());
    EXPECT_EQ(a.required_tolerances_size(), b.required_tolerances_size());
    EXPECT_EQ(a.hopeless_count(), b.hopeless_count());
  }

  testing::FakeStore store_;
  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  std::map<uint64_t, PolicySpec> policies_;
  std::unique_ptr<ComparisonJobs> jobs_;
};

TEST_F(JudgedComparisonTest, LooserAndTighterBoundsAreDecidedByTheMetrics) {
  RecordPair("equal", {1, 2}, {1, 2});
  RecordPair("near", {1, 2}, {1, 2.0001F});
  RecordPair("far", {1, 2}, {1, 3});
  golden_.Record(Floats("lone", {1}));
  const uint64_t id = Compare();
  EXPECT_THAT(Verdicts(id),
              ElementsAre(v1::PASS, v1::PASS, v1::FAIL, v1::UNMATCHED));
  for (const char* const bound : {"nl2 <= 1", "nl2 <= 1e-6", "cosine >= 0.9"}) {
    SCOPED_TRACE(bound);
    const PolicySpec spec = Tolerance(bound);
    ExpectAsCompared(Judge(id, spec), spec);
  }
  const uint64_t judged = Judge(id, Tolerance("nl2 <= 1e-6"));
  EXPECT_EQ(Get(judged).judged_comparison(), Get(id).name());
  EXPECT_EQ(Get(judged).read_bytes(), 0);
  const v1::ComparisonRow near = Rows(judged)[1];
  EXPECT_THAT(near.reason(), HasSubstr("needs <= 1e-6"));
  EXPECT_EQ(near.predicate(), "nl2 <= 1e-6");
  EXPECT_EQ(Get(judged).first_divergence().op(), "near");
  // The original is as it was.
  EXPECT_THAT(Verdicts(id),
              ElementsAre(v1::PASS, v1::PASS, v1::FAIL, v1::UNMATCHED));
}

TEST_F(JudgedComparisonTest, TheSamePolicyHasTheSameResult) {
  RecordPair("a", {1, 2}, {1, 2.0001F});
  RecordPair("b", {1, 2}, {1, 3});
  RecordPair("c", {1, 2}, {4, 3});
  const uint64_t id = Compare();
  const uint64_t judged = Judge(id, {});
  const auto before = Rows(id);
  const auto after = Rows(judged);
  ASSERT_EQ(before.size(), after.size());
  for (size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].SerializeAsString(), after[i].SerializeAsString());
  }
  v1::Comparison a = Get(id);
  v1::Comparison b = Get(judged);
  for (v1::Comparison* const each : {&a, &b}) {
    each->clear_name();
    each->clear_create_time();
    each->clear_end_time();
    each->clear_read_bytes();
    each->clear_judged_comparison();
    each->clear_judge_context();
  }
  EXPECT_EQ(a.DebugString(), b.DebugString());
  EXPECT_GT(a.makers_size(), 0);
}

TEST_F(JudgedComparisonTest, AMetricThatWasNotComputedIsNoPass) {
  RecordPair("equal", {1, 2}, {1, 2});
  RecordPair("near", {1, 2}, {1, 2.0001F});
  const uint64_t id = Compare();
  for (const char* const predicate :
       {"pearson >= 0.5", "pearson >= 0.5 if present",
        "nl2 <= 1 and pearson >= 0.5", "not (pearson < 0.5)"}) {
    SCOPED_TRACE(predicate);
    const uint64_t judged = Judge(id, Tolerance(predicate));
    EXPECT_THAT(Verdicts(judged), ElementsAre(v1::PASS, v1::SKIPPED));
    const v1::ComparisonRow row = Rows(judged)[1];
    EXPECT_EQ(row.reason(), "metric pearson was not computed");
    EXPECT_TRUE(row.lacks_metrics());
    EXPECT_TRUE(row.not_compared());
    EXPECT_TRUE(Get(judged).partial());
    EXPECT_EQ(Get(judged).not_compared_count(), 1);
  }
  // The others decide.
  EXPECT_THAT(Verdicts(Judge(id, Tolerance("pearson >= 0.5 or nl2 <= 1"))),
              ElementsAre(v1::PASS, v1::PASS));
  EXPECT_THAT(Verdicts(Judge(id, Tolerance("pearson >= 0.5 and nl2 <= 1e-9"))),
              ElementsAre(v1::PASS, v1::FAIL));
}

TEST_F(JudgedComparisonTest, AComputedMetricThatIsUndefinedFails) {
  RecordPair("constant", {0, 0}, {1, 1});
  const uint64_t id = Compare(Tolerance("max_abs <= 2 or pearson >= 0"));
  const PolicySpec spec = Tolerance("pearson >= 0.5");
  ExpectAsCompared(Judge(id, spec), spec);
  EXPECT_THAT(Verdicts(Judge(id, spec)), ElementsAre(v1::FAIL));
}

TEST_F(JudgedComparisonTest, AJudgedComparisonCanBeJudged) {
  RecordPair("near", {1, 2}, {1, 2.0001F});
  const uint64_t id = Compare();
  const uint64_t skipped = Judge(id, Tolerance("pearson >= 0.5"));
  EXPECT_THAT(Verdicts(skipped), ElementsAre(v1::SKIPPED));
  // The predicate of a comparison that was judged does not show what was
  // computed.
  EXPECT_THAT(Verdicts(Judge(skipped, Tolerance("pearson >= 0.6"))),
              ElementsAre(v1::SKIPPED));
  EXPECT_THAT(Verdicts(Judge(skipped, Tolerance("pearson >= 0.5"))),
              ElementsAre(v1::SKIPPED));
  const uint64_t again = Judge(skipped, Tolerance("nl2 <= 1"));
  EXPECT_THAT(Verdicts(again), ElementsAre(v1::PASS));
  EXPECT_FALSE(Get(again).partial());
  EXPECT_EQ(Get(again).judged_comparison(), Get(skipped).name());
  EXPECT_THAT(Verdicts(Judge(again, {})), ElementsAre(v1::PASS));
  EXPECT_THAT(Verdicts(Judge(id, Tolerance("nl2 <= 1"))),
              ElementsAre(v1::PASS));
}

TEST_F(JudgedComparisonTest, ElementTolerancesAreProvenOrUnknown) {
  RecordPair("a", {1, 100}, {1.5F, 100});
  const uint64_t id = Compare(OfNumbers(0.1, 0.1));
  EXPECT_THAT(Verdicts(id), ElementsAre(v1::FAIL));
  EXPECT_THAT(Verdicts(Judge(id, OfNumbers(0.1, 0.41))), ElementsAre(v1::PASS));
  EXPECT_THAT(Verdicts(Judge(id, OfNumbers(0.1, 0.39))), ElementsAre(v1::FAIL));
  EXPECT_THAT(Verdicts(Judge(id, OfNumbers(0.41, 0.1))), ElementsAre(v1::PASS));
  EXPECT_THAT(Verdicts(Judge(id, OfNumbers(0.05, 0.05))),
              ElementsAre(v1::FAIL));
  // max_abs proves this one.
  EXPECT_THAT(Verdicts(Judge(id, OfNumbers(0.01, 0.6))), ElementsAre(v1::PASS));
  // Nothing proves these.
  const uint64_t unknown = Judge(id, OfNumbers(0.2, 0.2));
  EXPECT_THAT(Verdicts(unknown), ElementsAre(v1::SKIPPED));
  EXPECT_EQ(Rows(unknown)[0].reason(), "metric outlier_count was not computed");
  // The extremes of both sides prove this one.
  EXPECT_THAT(Verdicts(Judge(id, OfPreset(Preset::kPolygraphy))),
              ElementsAre(v1::FAIL));
}

TEST_F(JudgedComparisonTest, HashesDecideBitwiseEquality) {
  RecordPair("equal", {1, 2}, {1, 2});
  RecordPair("near", {1, 2}, {1, 2.0001F});
  const uint64_t bits = Judge(Compare(), OfPreset(Preset::kBitwise));
  EXPECT_EQ(Verdicts(bits)[0], v1::PASS);
  EXPECT_NE(Verdicts(bits)[1], v1::PASS);
}

TEST_F(JudgedComparisonTest, ShapesAreJudgedByTheNewRule) {
  golden_.Record(Floats("op", {1, 2}));
  RecordedTensor wide = Floats("op", {1, 2});
  wide.shape = {1, 2};
  target_.Record(wide);
  const uint64_t id = Compare();
  EXPECT_THAT(Verdicts(id), ElementsAre(v1::FAIL));
  PolicySpec squeeze = Tolerance("nl2 <= 1");
  squeeze.shape_rule = ShapeRule::kSqueeze;
  const uint64_t judged = Judge(id, squeeze);
  EXPECT_NE(Verdicts(judged)[0], v1::PASS);
  EXPECT_THAT(Verdicts(Judge(judged, Tolerance("nl2 <= 1"))),
              ElementsAre(v1::FAIL));
}

TEST_F(JudgedComparisonTest, EqualBytesOfOtherShapesFailByTheNewRule) {
  golden_.Record(Floats("op", {1, 2}));
  RecordedTensor wide = Floats("op", {1, 2});
  wide.shape = {1, 2};
  target_.Record(wide);
  PolicySpec squeeze;
  squeeze.shape_rule = ShapeRule::kSqueeze;
  const uint64_t id = Compare(squeeze);
  EXPECT_THAT(Verdicts(id), ElementsAre(v1::PASS));
  ExpectAsCompared(Judge(id, {}), {});
  EXPECT_THAT(Rows(Judge(id, {}))[0].reason(), HasSubstr("shape: target"));
}

// The metrics of the earlier policy include the closed places.
TEST_F(JudgedComparisonTest, MasksAreNotJudgedByTheDefaultPolicy) {
  constexpr float kClosed = -3.4028234663852886e38F;
  std::vector<float> golden(16, kClosed);
  std::vector<float> target(16, kClosed);
  for (size_t i = 0; i < 8; ++i) {
    golden[i] = static_cast<float>(i);
    target[i] = static_cast<float>(8 - i);
  }
  RecordPair("scores", golden, target);
  const uint64_t id = Compare(Tolerance("max_abs <= 100"));
  EXPECT_THAT(Verdicts(id), ElementsAre(v1::PASS));
  const uint64_t judged = Judge(id, {});
  EXPECT_THAT(Verdicts(judged), ElementsAre(v1::SKIPPED));
  EXPECT_THAT(Rows(judged)[0].reason(), HasSubstr("mask"));
  EXPECT_TRUE(Get(judged).partial());
}

TEST_F(JudgedComparisonTest, StatisticsAreJudgedByTheirOwnPolicyOnly) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    RecordedTensor statistics = Floats("op", {1, 2});
    statistics.bytes.clear();
    statistics.kind = RecordKind::kStatistics;
    statistics.value = run == &golden_ ? R"({"max":2})" : R"({"max":2.5})";
    run->Record(statistics);
  }
  const uint64_t id = Compare(Tolerance("max_abs <= 1"));
  const auto before = Verdicts(id);
  EXPECT_EQ(Verdicts(Judge(id, Tolerance("max_abs <= 1"))), before);
  ComparisonJobs::JudgeRequest request;
  request.source = {id, Get(id), MakePolicy(Tolerance("max_abs <= 1"))};
  request.source.comparison.mutable_policy()->add_rules()->set_op_pattern("a");
  request.policy = MakePolicy(Tolerance("max_abs <= 2"));
  const auto started = jobs_->Judge(std::move(request));
  ASSERT_TRUE(started.ok()) << started.status();
  const uint64_t judged = ParseComparisonName(started->name()).value();
  EXPECT_TRUE(AwaitEnd(*jobs_, judged).partial());
  EXPECT_THAT(Verdicts(judged), ElementsAre(v1::SKIPPED));
}

TEST_F(JudgedComparisonTest, RowsHaveNoTolerancesOfTheEarlierPolicy) {
  RecordPair("a", {1, 100}, {1.5F, 100});
  const uint64_t id = Compare(OfNumbers(0.1, 0.1));
  EXPECT_TRUE(Rows(id)[0].has_rtol());
  const v1::ComparisonRow row = Rows(Judge(id, Tolerance("nl2 <= 1")))[0];
  EXPECT_EQ(row.verdict(), v1::PASS);
  EXPECT_FALSE(row.has_rtol());
  EXPECT_FALSE(row.has_atol());
  for (const v1::MetricValue& metric : row.metrics()) {
    EXPECT_NE(metric.metric(), "outlier_count");
  }
  // Nothing states with which numbers the row would pass.
  const uint64_t failed = Judge(id, OfNumbers(0.1, 0.39));
  EXPECT_EQ(Get(failed).required_tolerances_size(), 0);
  EXPECT_EQ(Get(failed).hopeless_count(), 0);
}

TEST_F(JudgedComparisonTest, OnlyCompleteComparisonsAreJudged) {
  RecordPair("near", {1, 2}, {1, 2.0001F});
  const uint64_t id = Compare();
  EXPECT_EQ(Start(77, {}).status().code(), absl::StatusCode::kNotFound);
  for (const auto state : {v1::Comparison::RUNNING, v1::Comparison::PENDING,
                           v1::Comparison::CANCELLED, v1::Comparison::FAILED}) {
    ComparisonJobs::JudgeRequest request;
    request.source = {id, Get(id), Policy()};
    request.source.comparison.set_state(state);
    EXPECT_EQ(jobs_->Judge(std::move(request)).status().code(),
              absl::StatusCode::kFailedPrecondition);
  }
  ComparisonJobs::JudgeRequest old;
  old.source = {id, Get(id), Policy()};
  old.source.comparison.clear_judge_context();
  EXPECT_THAT(std::string(jobs_->Judge(std::move(old)).status().message()),
              HasSubstr("earlier version"));
}

TEST_F(JudgedComparisonTest, SourceThatIsDeletedFailsTheJudging) {
  RecordPair("near", {1, 2}, {1, 2.0001F});
  const uint64_t id = Compare();
  ComparisonJobs::JudgeRequest request;
  request.source = {id, Get(id), Policy()};
  ASSERT_TRUE(jobs_->Delete(id).ok());
  const auto started = jobs_->Judge(std::move(request));
  ASSERT_TRUE(started.ok()) << started.status();
  const v1::Comparison ended =
      AwaitEnd(*jobs_, ParseComparisonName(started->name()).value());
  EXPECT_EQ(ended.state(), v1::Comparison::FAILED);
  EXPECT_EQ(ended.error_reason(), "COMPARISON_NOT_FOUND");
  EXPECT_THAT(ended.error(), HasSubstr("was deleted"));
}

TEST_F(JudgedComparisonTest, ResultOutlivesItsSource) {
  RecordPair("near", {1, 2}, {1, 2.0001F});
  const uint64_t id = Compare();
  const uint64_t judged = Judge(id, Tolerance("nl2 <= 1"));
  ASSERT_TRUE(jobs_->Delete(id).ok());
  EXPECT_THAT(Verdicts(judged), ElementsAre(v1::PASS));
  Open();
  EXPECT_EQ(Get(judged).state(), v1::Comparison::DONE);
  EXPECT_THAT(Verdicts(Judge(judged, Tolerance("nl2 <= 1e-9"))),
              ElementsAre(v1::FAIL));
}

TEST_F(JudgedComparisonTest, ManyRowsHaveTheResultOfAComparison) {
  for (int i = 0; i < 3000; ++i) {
    const float error = i % 3 == 0 ? 0 : 1e-5F * static_cast<float>(i);
    RecordPair("op" + std::to_string(i), {1, 2, 3}, {1, 2 + error, 3});
  }
  const uint64_t id = Compare();
  for (const char* const bound : {"nl2 <= 1e-3", "max_abs <= 1e-2"}) {
    const PolicySpec spec = Tolerance(bound);
    ExpectAsCompared(Judge(id, spec), spec);
  }
}

}  // namespace
}  // namespace msitd::compare
