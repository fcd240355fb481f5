// SPDX-License-Identifier: Apache-2.0

// Tests of comparisons over a store on disk, as in the daemon.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "daemon/compare/job/comparison_jobs.h"
#include "daemon/compare/judge/row_metrics.h"
#include "storage/env/env.h"
#include "storage/store.h"
#include "tests/unit/daemon/compare/await_comparison.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::HasSubstr;

class StoredComparisonTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name =
        (std::filesystem::temp_directory_path() / "compare-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    directory_ = name;
    Open();
  }

  void TearDown() override {
    Close();
    std::filesystem::remove_all(directory_);
  }

  void Open() {
    storage::StoreOptions options;
    options.directory = directory_ + "/data";
    options.segment_bytes_max = uint64_t{64} << 20;
    auto store = storage::Store::Open(options, storage::Env::Posix());
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    auto jobs = ComparisonJobs::Create(store_->readers(), store_->comparisons(),
                                       store_->attachments(), {});
    ASSERT_TRUE(jobs.ok()) << jobs.status();
    jobs_ = *std::move(jobs);
  }

  void Close() {
    jobs_.reset();
    if (store_ != nullptr) {
      EXPECT_TRUE(store_->Close().ok());
    }
    store_.reset();
  }

  // Records two tokens of a model with three layers on two ranks. At the second
  // token, the second layer of rank 1 multiplies by `scale`.
  void RecordRun(const std::string& name, bool as_bfloat, float scale) {
    RunRecorder run(*store_, name);
    for (const int32_t rank : {0, 1}) {
      for (const int64_t token : {0, 1}) {
        std::vector<float> values(2'000'000);
        for (size_t i = 0; i < values.size(); ++i) {
          values[i] = static_cast<float>(i % 128) - 64;
        }
        for (const std::string_view op : {"layers.0", "layers.1", "layers.2"}) {
          if (rank == 1 && token == 1 && op == "layers.1") {
            for (float& value : values) value *= scale;
          }
          RecordedTensor tensor =
              as_bfloat ? Bfloats(op, values) : Floats(op, values);
          tensor.rank = rank;
          tensor.token = token;
          run.Record(tensor);
        }
      }
    }
  }

  v1::Comparison Compare(const std::string& golden, const std::string& target) {
    const auto started = jobs_->Start({}, {golden, target, {}, {}});
    EXPECT_TRUE(started.ok()) << started.status();
    v1::Comparison ended = AwaitEnd(*jobs_, ++last_id_);
    EXPECT_EQ(ended.state(), v1::Comparison::DONE) << ended.error();
    return ended;
  }

  std::string directory_;
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<ComparisonJobs> jobs_;
  uint64_t last_id_ = 0;
};

TEST_F(StoredComparisonTest, OpThatDiffersIsNamedAcrossTypesRanksAndTokens) {
  RecordRun("golden", false, 1);
  RecordRun("bf16", true, 1);
  RecordRun("wrong", true, 1.5);
  const v1::Comparison healthy = Compare("golden", "bf16");
  EXPECT_EQ(healthy.pass_count(), 12);
  EXPECT_EQ(healthy.total_count(), 12);
  EXPECT_EQ(healthy.read_bytes(), 12 * 2'000'000 * (4 + 2));
  EXPECT_FALSE(healthy.has_first_divergence());

  const v1::Comparison wrong = Compare("golden", "wrong");
  EXPECT_EQ(wrong.pass_count(), 10);
  EXPECT_EQ(wrong.fail_count(), 2);
  const v1::ComparisonRow& first = wrong.first_divergence();
  EXPECT_EQ(first.op(), "layers.1");
  EXPECT_EQ(first.rank(), 1);
  EXPECT_EQ(first.token(), 1);
  EXPECT_THAT(first.reason(), HasSubstr("nl2 = 0.5, needs <= 5e-2"));

  const v1::Comparison same = Compare("bf16", "bf16");
  EXPECT_EQ(same.pass_count(), 12);
  EXPECT_EQ(same.read_bytes(), 0);
}

TEST_F(StoredComparisonTest, ComparisonsAndRowsSurviveARestart) {
  RecordRun("golden", true, 1);
  RecordRun("wrong", true, 2);
  const v1::Comparison before = Compare("golden", "wrong");
  const auto rows = jobs_->Rows(1, 0, 100);
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 12u);
  Close();
  Open();
  EXPECT_EQ(jobs_->Get(1)->comparison.SerializeAsString(),
            before.SerializeAsString());
  const auto rows_after = jobs_->Rows(1, 0, 100);
  ASSERT_TRUE(rows_after.ok());
  ASSERT_EQ(rows_after->size(), 12u);
  for (size_t i = 0; i < rows->size(); ++i) {
    EXPECT_EQ((*rows)[i].SerializeAsString(),
              (*rows_after)[i].SerializeAsString());
  }
  ASSERT_TRUE(jobs_->Delete(1).ok());
  EXPECT_FALSE(jobs_->Get(1).ok());
}

TEST_F(StoredComparisonTest, CustomMetricsSurviveARestart) {
  RecordRun("golden", true, 1);
  RecordRun("wrong", true, 2);
  Compare("golden", "wrong");
  RowMetricsList added;
  for (const int64_t row : {0, 1, 5, 11}) {
    v1::AddRowMetricsRequest::RowMetrics& metrics = *added.Add();
    metrics.set_row(row);
    metrics.add_metrics()->set_metric("mine");
    metrics.mutable_metrics(0)->set_value(static_cast<double>(row));
  }
  ASSERT_TRUE(jobs_->AddRowMetrics(1, added).ok());
  Close();
  Open();
  ASSERT_EQ(jobs_->Get(1)->comparison.custom_metrics_size(), 1);
  const auto rows = jobs_->Rows(1, 0, 100);
  ASSERT_TRUE(rows.ok());
  ASSERT_EQ(rows->size(), 12u);
  for (const v1::ComparisonRow& row : *rows) {
    const bool has = row.row() <= 1 || row.row() == 5 || row.row() == 11;
    ASSERT_EQ(row.custom_metrics_size(), has ? 1 : 0) << row.row();
    if (has) {
      EXPECT_EQ(row.custom_metrics(0).value(), row.row());
    }
  }
}

// Returns a row as a comparison of bfloat16 layers stores it.
v1::ComparisonRow LayerRow(int64_t number) {
  v1::ComparisonRow row;
  row.set_row(number);
  row.set_token(number / 1000);
  row.set_sequence(number % 1000);
  row.set_op("model.layers." + std::to_string(number % 1000) + ".mlp.down");
  row.set_io(v1::IO_OUTPUT);
  row.set_index("0");
  for (v1::ComparedTensor* const side :
       {row.mutable_golden(), row.mutable_target()}) {
    side->set_name("runs/g/ranks/0/tokens/1/" + row.op() + "/output/0");
    side->set_dtype(v1::D_TYPE_BFLOAT16);
    side->add_shape(512);
    side->add_shape(4096);
    side->set_min(-4);
    side->set_max(4);
    side->set_mean(1e-3);
    side->set_l2_norm(1000);
    side->set_nan_count(0);
    side->set_infinity_count(0);
  }
  row.mutable_golden()->set_hash("00112233445566778899aabbccddeeff");
  row.mutable_target()->set_hash("00112233445566778899aabbccddeefe");
  row.set_verdict(v1::PASS);
  row.set_predicate("nl2 <= 5e-2");
  for (const std::string_view name : MetricNames().first(20)) {
    v1::MetricValue& metric = *row.add_metrics();
    metric.set_metric(std::string(name));
    metric.set_value(1e-6 * static_cast<double>(number % 1000));
  }
  return row;
}

// The number of rows is that of the environment variable JUDGED_ROWS, to
// measure the time of large comparisons.
TEST_F(StoredComparisonTest, ManyStoredRowsAreJudgedWithoutTheirRuns) {
  const char* const wanted = std::getenv("JUDGED_ROWS");
  const int64_t count = wanted == nullptr ? 20'000 : std::atoll(wanted);
  RecordRun("g", true, 1);
  v1::Comparison document;
  document.set_golden_run("g");
  document.set_target_run("g");
  document.set_state(v1::Comparison::DONE);
  document.set_pass_count(count);
  document.mutable_judge_context();
  storage::Comparisons& stored = store_->comparisons();
  const auto id =
      stored.CreateComparison(document.SerializeAsString(), {{"g"}});
  ASSERT_TRUE(id.ok()) << id.status();
  for (int64_t first = 0; first < count; first += 1000) {
    std::vector<std::string> rows;
    for (int64_t i = first; i < std::min(count, first + 1000); ++i) {
      rows.push_back(LayerRow(i).SerializeAsString());
    }
    ASSERT_TRUE(stored.PutComparisonRows(*id, first, rows).ok());
  }
  ComparisonJobs::JudgeRequest request;
  request.source = {*id, jobs_->Get(*id)->comparison, Policy()};
  auto policy = Policy::Create(std::vector<PolicyRule>{{"*", "nl2 <= 5e-4"}});
  ASSERT_TRUE(policy.ok());
  request.policy = *std::move(policy);
  const auto start = std::chrono::steady_clock::now();
  ASSERT_TRUE(jobs_->Judge(std::move(request)).ok());
  const v1::Comparison ended = AwaitEnd(*jobs_, *id + 1);
  const auto elapsed = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(ended.state(), v1::Comparison::DONE) << ended.error();
  EXPECT_EQ(ended.pass_count(), count / 1000 * 501);
  EXPECT_EQ(ended.fail_count(), count / 1000 * 499);
  EXPECT_EQ(ended.first_divergence().row(), 501);
  RecordProperty(
      "rows_per_s",
      static_cast<int>(static_cast<double>(count) /
                       std::chrono::duration<double>(elapsed).count()));
}

}  // namespace
}  // namespace msitd::compare
