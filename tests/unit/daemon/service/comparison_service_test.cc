// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/comparison_service.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "daemon/compare/job/comparison_job.h"
#include "daemon/compare/job/comparison_jobs.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "msitd/v1/comparison_service.grpc.pb.h"
#include "tests/support/fake_store.h"
#include "tests/support/temp_dir.h"
#include "tests/unit/daemon/compare/run_recorder.h"
#include "tests/unit/daemon/service/test_admission.h"

namespace msitd::service {
namespace {

using compare::Floats;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  google::rpc::ErrorInfo info;
  for (const auto& detail : details.details()) {
    if (detail.UnpackTo(&info)) return info.reason();
  }
  return "";
}

class ComparisonServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    compare::ComparisonJobs::Options options;
    options.active_max = 1;
    options.waiting_max = 1;
    jobs_ = *compare::ComparisonJobs::Create(store_, store_,
                                             store_.attachments(), options);
    service_ = std::make_unique<ComparisonServiceImpl>(
        *jobs_, CallPools{pool_, pool_, pool_}, gate_.admission());
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    const std::string endpoint = "unix:" + (directory_ / "s");
    builder.AddListeningPort(endpoint,
                             testing::CredentialsOf(access::Daemon()));
    server_ = builder.BuildAndStart();
    stub_ = v1::ComparisonService::NewStub(
        grpc::CreateChannel(endpoint, grpc::InsecureChannelCredentials()));
  }

  void TearDown() override {
    store_.UnblockReads();
    jobs_->Stop();
    server_->Shutdown();
    server_->Wait();
    pool_.Stop();
  }

  void RecordPair(std::string_view op, float target_value = 2) {
    golden_.Record(Floats(op, {1}));
    target_.Record(Floats(op, {target_value}));
  }

  static v1::CreateComparisonRequest Request() {
    v1::CreateComparisonRequest request;
    request.mutable_comparison()->set_golden_run("g");
    request.mutable_comparison()->set_target_run("t");
    return request;
  }

  grpc::Status Create(const v1::CreateComparisonRequest& request,
                      v1::Comparison* out = nullptr) {
    grpc::ClientContext context;
    v1::Comparison comparison;
    return stub_->CreateComparison(&context, request,
                                   out != nullptr ? out : &comparison);
  }

  std::string Created() {
    v1::Comparison comparison;
    const grpc::Status status = Create(Request(), &comparison);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return comparison.name();
  }

  // Reads a stream to its end.
  grpc::Status Stream(const std::string& name, int64_t first_row,
                      std::vector<v1::ComparisonRow>& rows,
                      v1::Comparison& last) {
    grpc::ClientContext context;
    v1::StreamComparisonRowsRequest request;
    request.set_comparison(name);
    request.set_first_row(first_row);
    const auto reader = stub_->StreamComparisonRows(&context, request);
    v1::StreamComparisonRowsResponse message;
    while (reader->Read(&message)) {
      EXPECT_LE(message.rows_size(), 256);
      for (const v1::ComparisonRow& row : message.rows()) rows.push_back(row);
      last = message.comparison();
    }
    return reader->Finish();
  }

  v1::Comparison AwaitEnd(const std::string& name) {
    std::vector<v1::ComparisonRow> rows;
    v1::Comparison last;
    EXPECT_TRUE(Stream(name, 0, rows, last).ok());
    return last;
  }

  testing::FakeStore store_;
  compare::RunRecorder golden_{store_, "g"};
  compare::RunRecorder target_{store_, "t"};
  TaskPool pool_{"query", 2, 64};
  std::unique_ptr<compare::ComparisonJobs> jobs_;
  testing::TempDir directory_;
  testing::OpenGate gate_;
  std::unique_ptr<ComparisonServiceImpl> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::ComparisonService::Stub> stub_;
};

TEST_F(ComparisonServiceTest, CreatedComparisonCanBeFollowedToItsEnd) {
  RecordPair("same", 1);
  RecordPair("changed");
  RecordPair("later");
  const std::string name = Created();
  EXPECT_EQ(name, "c-000001");
  std::vector<v1::ComparisonRow> rows;
  v1::Comparison last;
  ASSERT_TRUE(Stream(name, 0, rows, last).ok());
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(last.state(), v1::Comparison::DONE) << last.error();
  EXPECT_EQ(last.first_divergence().op(), "changed");
  EXPECT_EQ(last.fail_count(), 2);

  grpc::ClientContext context;
  v1::GetComparisonRequest get;
  get.set_comparison(name);
  v1::Comparison got;
  ASSERT_TRUE(stub_->GetComparison(&context, get, &got).ok());
  EXPECT_EQ(got.SerializeAsString(), last.SerializeAsString());

  rows.clear();
  ASSERT_TRUE(Stream(name, 2, rows, last).ok());
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].op(), "later");
  rows.clear();
  ASSERT_TRUE(Stream(name, 3, rows, last).ok());
  EXPECT_TRUE(rows.empty());
  EXPECT_EQ(last.state(), v1::Comparison::DONE);
}

TEST_F(ComparisonServiceTest, AShortComparisonIsCreatedWithItsResult) {
  RecordPair("changed");
  v1::Comparison created;
  // A busy machine may be too slow for a single one.
  for (int i = 0; i < 50 && created.state() != v1::Comparison::DONE; ++i) {
    ASSERT_TRUE(Create(Request(), &created).ok());
    (void)AwaitEnd(created.name());
  }
  EXPECT_EQ(created.state(), v1::Comparison::DONE);
  EXPECT_EQ(created.fail_count(), 1);
}

TEST_F(ComparisonServiceTest, ALongComparisonIsCreatedWithoutItsResult) {
  RecordPair("changed");
  store_.BlockReads();
  v1::Comparison created;
  ASSERT_TRUE(Create(Request(), &created).ok());
  EXPECT_FALSE(compare::HasEnded(created));
  // Others do not wait until the first one has ended.
  ASSERT_TRUE(Create(Request(), &created).ok());
  EXPECT_EQ(created.state(), v1::Comparison::PENDING);
  EXPECT_EQ(created.waiting_behind_count(), 1);
}

// A call that waited would return the result.
TEST_F(ComparisonServiceTest, DetachedComparisonsAreCreatedAtOnce) {
  RecordPair("changed");
  v1::CreateComparisonRequest request = Request();
  request.mutable_comparison()->set_detach(true);
  int pending_count = 0;
  for (int i = 0; i < 50; ++i) {
    v1::Comparison created;
    ASSERT_TRUE(Create(request, &created).ok());
    pending_count += created.state() == v1::Comparison::PENDING ? 1 : 0;
    (void)AwaitEnd(created.name());
  }
  EXPECT_EQ(pending_count, 50);
}

TEST_F(ComparisonServiceTest, ACallIsNotLateBecauseItWaited) {
  RecordPair("changed");
  store_.BlockReads();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(190));
  v1::Comparison created;
  const grpc::Status status =
      stub_->CreateComparison(&context, Request(), &created);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(created.name(), "c-000001");
}

TEST_F(ComparisonServiceTest, AComparisonThatIsDeletedMeanwhileWasCreated) {
  RecordPair("changed");
  store_.BlockReads();
  std::thread deleter([this] {
    v1::DeleteComparisonRequest request;
    request.set_comparison("c-000001");
    google::protobuf::Empty response;
    grpc::Status status(grpc::StatusCode::NOT_FOUND, "");
    for (int i = 0; i < 5000 && !status.ok(); ++i) {
      grpc::ClientContext context;
      status = stub_->DeleteComparison(&context, request, &response);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    EXPECT_TRUE(status.ok()) << status.error_message();
  });
  v1::Comparison created;
  EXPECT_TRUE(Create(Request(), &created).ok());
  EXPECT_EQ(created.name(), "c-000001");
  store_.UnblockReads();
  deleter.join();
}

TEST_F(ComparisonServiceTest, AShortJudgementComesWithItsResult) {
  RecordPair("changed");
  const std::string name = Created();
  (void)AwaitEnd(name);
  v1::JudgeComparisonRequest request;
  request.set_comparison(name);
  v1::Comparison judged;
  for (int i = 0; i < 50 && judged.state() != v1::Comparison::DONE; ++i) {
    grpc::ClientContext context;
    ASSERT_TRUE(stub_->JudgeComparison(&context, request, &judged).ok());
    (void)AwaitEnd(judged.name());
  }
  EXPECT_EQ(judged.state(), v1::Comparison::DONE);
}

TEST_F(ComparisonServiceTest, PlanSaysWhatWouldBeComparedAndMakesNothing) {
  RecordPair("a");
  RecordPair("b", 1);
  v1::PlanComparisonRequest request;
  *request.mutable_comparison() = Request().comparison();
  v1::PlanComparisonResponse plan;
  const auto ask = [&] {
    grpc::ClientContext context;
    return stub_->PlanComparison(&context, request, &plan);
  };
  ASSERT_TRUE(ask().ok());
  ASSERT_EQ(plan.spans_size(), 1);
  EXPECT_EQ(plan.spans(0).rank(), 0);
  EXPECT_EQ(plan.spans(0).first_token(), 0);
  EXPECT_EQ(plan.spans(0).last_token(), 0);
  EXPECT_EQ(plan.spans(0).group_count(), 1);
  EXPECT_FALSE(plan.spans(0).is_whole());
  EXPECT_EQ(plan.sampled_group_count(), 1);
  EXPECT_EQ(plan.sampled_pair_count(), 2);
  // For `b`, the hashes are decisive.
  EXPECT_EQ(plan.sampled_read_bytes(), 8);
  EXPECT_EQ(jobs_->live_count(), 0);

  request.mutable_comparison()->mutable_policy()->add_rules()->set_predicate(
      "nonsense");
  EXPECT_EQ(ask().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  *request.mutable_comparison() = Request().comparison();
  request.mutable_comparison()->set_target_run("none");
  EXPECT_EQ(ReasonOf(ask()), "RUN_NOT_FOUND");
}

TEST_F(ComparisonServiceTest, StreamShowsRowsBeforeTheEndAndThenTheRest) {
  for (int i = 0; i < 300; ++i) RecordPair(fmt::format("op{}", i), 1);
  RecordPair("blocks");
  store_.BlockReads();
  const std::string name = Created();
  grpc::ClientContext context;
  v1::StreamComparisonRowsRequest request;
  request.set_comparison(name);
  const auto reader = stub_->StreamComparisonRows(&context, request);
  v1::StreamComparisonRowsResponse message;
  int64_t seen = 0;
  while (seen < 256 && reader->Read(&message)) {
    for (const v1::ComparisonRow& row : message.rows()) {
      EXPECT_EQ(row.row(), seen++);
    }
  }
  EXPECT_EQ(message.comparison().state(), v1::Comparison::RUNNING);
  store_.AwaitRead();
  store_.UnblockReads();
  while (reader->Read(&message)) {
    for (const v1::ComparisonRow& row : message.rows()) {
      EXPECT_EQ(row.row(), seen++);
    }
  }
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(seen, 301);
  EXPECT_EQ(message.comparison().state(), v1::Comparison::DONE);
}

TEST_F(ComparisonServiceTest, StreamThatWaitsEndsWhenItsCallerGoes) {
  RecordPair("blocks");
  store_.BlockReads();
  const std::string name = Created();
  store_.AwaitRead();
  grpc::ClientContext context;
  v1::StreamComparisonRowsRequest request;
  request.set_comparison(name);
  const auto reader = stub_->StreamComparisonRows(&context, request);
  v1::StreamComparisonRowsResponse message;
  ASSERT_TRUE(reader->Read(&message));
  context.TryCancel();
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The comparison continues without a reader.
  store_.UnblockReads();
  EXPECT_EQ(AwaitEnd(name).state(), v1::Comparison::DONE);
}

TEST_F(ComparisonServiceTest, StreamThatWaitsEndsAtItsDeadline) {
  RecordPair("blocks");
  store_.BlockReads();
  const std::string name = Created();
  store_.AwaitRead();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       std::chrono::milliseconds(100));
  v1::StreamComparisonRowsRequest request;
  request.set_comparison(name);
  const auto reader = stub_->StreamComparisonRows(&context, request);
  v1::StreamComparisonRowsResponse message;
  while (reader->Read(&message)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

TEST_F(ComparisonServiceTest, DeleteEndsTheStreamsOfAComparison) {
  RecordPair("blocks");
  store_.BlockReads();
  const std::string name = Created();
  store_.AwaitRead();
  grpc::ClientContext context;
  v1::StreamComparisonRowsRequest request;
  request.set_comparison(name);
  const auto reader = stub_->StreamComparisonRows(&context, request);
  v1::StreamComparisonRowsResponse message;
  ASSERT_TRUE(reader->Read(&message));
  grpc::ClientContext delete_context;
  v1::DeleteComparisonRequest delete_request;
  delete_request.set_comparison(name);
  google::protobuf::Empty empty;
  ASSERT_TRUE(
      stub_->DeleteComparison(&delete_context, delete_request, &empty).ok());
  while (reader->Read(&message)) {
  }
  const grpc::Status status = reader->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(status), "COMPARISON_NOT_FOUND");
}

TEST_F(ComparisonServiceTest, CancelReturnsTheCancelledComparison) {
  RecordPair("blocks");
  store_.BlockReads();
  const std::string running = Created();
  store_.AwaitRead();
  const std::string waiting = Created();
  grpc::ClientContext context;
  v1::CancelComparisonRequest request;
  request.set_comparison(waiting);
  v1::Comparison cancelled;
  ASSERT_TRUE(stub_->CancelComparison(&context, request, &cancelled).ok());
  EXPECT_EQ(cancelled.state(), v1::Comparison::CANCELLED);
  EXPECT_EQ(cancelled.name(), waiting);
  store_.UnblockReads();
  EXPECT_EQ(AwaitEnd(running).state(), v1::Comparison::DONE);
}

TEST_F(ComparisonServiceTest, RowsArePagedAndFilteredByVerdict) {
  for (int i = 0; i < 6; ++i) {
    RecordPair(fmt::format("op{}", i), i % 2 == 0 ? 1 : 2);
  }
  const std::string name = Created();
  AwaitEnd(name);
  v1::ListComparisonRowsRequest request;
  request.set_comparison(name);
  request.set_page_size(2);
  const auto pages = [&] {
    std::vector<std::string> out;
    request.clear_page_token();
    do {
      grpc::ClientContext context;
      v1::ListComparisonRowsResponse page;
      const grpc::Status status =
          stub_->ListComparisonRows(&context, request, &page);
      EXPECT_TRUE(status.ok()) << status.error_message();
      std::string ops;
      for (const v1::ComparisonRow& row : page.rows()) ops += row.op() + " ";
      out.push_back(ops);
      request.set_page_token(page.next_page_token());
    } while (!request.page_token().empty());
    return out;
  };
  EXPECT_THAT(pages(), ElementsAre("op0 op1 ", "op2 op3 ", "op4 op5 "));
  request.add_verdicts(v1::FAIL);
  EXPECT_THAT(pages(), ElementsAre("op1 op3 ", "op5 "));
  request.set_verdicts(0, v1::UNMATCHED);
  EXPECT_THAT(pages(), ElementsAre(""));
  request.clear_verdicts();
  for (const int64_t row : {4, 1, 0, 4, 1000}) request.add_rows(row);
  EXPECT_THAT(pages(), ElementsAre("op0 op1 ", "op4 "));
  request.add_verdicts(v1::FAIL);
  EXPECT_THAT(pages(), ElementsAre("op1 "));
  request.clear_verdicts();
  request.clear_rows();
  request.add_op_patterns("*3");
  request.add_op_patterns("op5");
  EXPECT_THAT(pages(), ElementsAre("op3 op5 "));
  request.add_rows(5);
  EXPECT_THAT(pages(), ElementsAre("op5 "));
}

TEST_F(ComparisonServiceTest, RowsAreSummarizedFromAnyRowOn) {
  for (int i = 0; i < 6; ++i) {
    RecordPair(fmt::format("op{}", i), i % 2 == 0 ? 1 : 2);
  }
  const std::string name = Created();
  AwaitEnd(name);
  v1::SummarizeComparisonRowsRequest request;
  v1::SummarizeComparisonRowsResponse response;
  const auto summarize = [&] {
    grpc::ClientContext context;
    response.Clear();
    return stub_->SummarizeComparisonRows(&context, request, &response);
  };
  request.set_comparison(name);
  ASSERT_TRUE(summarize().ok());
  ASSERT_EQ(response.groups_size(), 1);
  EXPECT_EQ(response.groups(0).pass_count(), 3);
  EXPECT_EQ(response.groups(0).fail_count(), 3);
  EXPECT_EQ(response.groups(0).worst_row(), 1);
  EXPECT_GT(response.groups(0).worst(), 1);
  EXPECT_EQ(response.next_row(), 6);
  EXPECT_EQ(response.row_count(), 6);
  request.set_first_row(4);
  request.add_group_by(v1::SummarizeComparisonRowsRequest::OP);
  request.set_value("max_abs");
  ASSERT_TRUE(summarize().ok());
  ASSERT_EQ(response.groups_size(), 2);
  EXPECT_EQ(response.groups(0).op(), "op4");
  EXPECT_EQ(response.groups(1).worst(), 1);
  request.set_first_row(6);
  ASSERT_TRUE(summarize().ok());
  EXPECT_EQ(response.groups_size(), 0);
  EXPECT_EQ(response.next_row(), 6);
  request.set_first_row(-1);
  EXPECT_EQ(ReasonOf(summarize()), "FIELD_INVALID");
  request.set_first_row(0);
  request.set_value("none");
  EXPECT_EQ(ReasonOf(summarize()), "FIELD_INVALID");
  request.set_comparison("c-000099");
  EXPECT_EQ(ReasonOf(summarize()), "COMPARISON_NOT_FOUND");
}

TEST_F(ComparisonServiceTest, ComparisonsArePaged) {
  const std::vector<std::string> names = {Created(), "", ""};
  AwaitEnd(names[0]);
  AwaitEnd(Created());
  AwaitEnd(Created());
  v1::ListComparisonsRequest request;
  request.set_page_size(2);
  grpc::ClientContext first;
  v1::ListComparisonsResponse page;
  ASSERT_TRUE(stub_->ListComparisons(&first, request, &page).ok());
  ASSERT_EQ(page.comparisons_size(), 2);
  EXPECT_EQ(page.comparisons(1).name(), "c-000002");
  request.set_page_token(page.next_page_token());
  grpc::ClientContext second;
  ASSERT_TRUE(stub_->ListComparisons(&second, request, &page).ok());
  ASSERT_EQ(page.comparisons_size(), 1);
  EXPECT_EQ(page.comparisons(0).name(), "c-000003");
  EXPECT_EQ(page.next_page_token(), "");
}

TEST_F(ComparisonServiceTest, BadRequestsSayWhatIsWrong) {
  v1::CreateComparisonRequest request = Request();
  request.mutable_comparison()->clear_golden_run();
  grpc::Status status = Create(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(status), "FIELD_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("comparison.golden_run"));

  request = Request();
  request.mutable_comparison()->set_target_run("nobody");
  status = Create(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(ReasonOf(status), "RUN_NOT_FOUND");

  request = Request();
  v1::Policy::Rule& rule =
      *request.mutable_comparison()->mutable_policy()->add_rules();
  rule.set_op_pattern("*");
  rule.set_predicate("cosine >= ");
  status = Create(request);
  EXPECT_EQ(ReasonOf(status), "PREDICATE_INVALID");
  EXPECT_THAT(status.error_message(),
              HasSubstr("policy.rules[0]: predicate, column 11: expected"));

  request = Request();
  request.mutable_comparison()->mutable_filter()->add_ranks(-1);
  EXPECT_EQ(ReasonOf(Create(request)), "FIELD_INVALID");

  request = Request();
  request.mutable_comparison()->mutable_filter()->add_devices("cpu:0");
  v1::Layout& layout =
      *request.mutable_comparison()->mutable_matching()->add_target_layouts();
  layout.set_op_pattern("*");
  layout.set_kind(v1::Layout::REPLICATED);
  status = Create(request);
  EXPECT_EQ(ReasonOf(status), "FIELD_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("filter.devices: "));
}

TEST_F(ComparisonServiceTest, RunsThatLieElsewhereAreRefusedByName) {
  v1::CreateComparisonRequest request = Request();
  v1::Comparison& comparison = *request.mutable_comparison();
  comparison.set_golden_source("elsewhere");
  grpc::Status status = Create(request);
  EXPECT_EQ(ReasonOf(status), "FIELD_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("'elsewhere'"));

  comparison.set_follow(true);
  status = Create(request);
  EXPECT_EQ(ReasonOf(status), "FIELD_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("comparison.follow"));

  comparison.set_follow(false);
  v1::Matching::Mapping& mapping =
      *comparison.mutable_matching()->mutable_mapping();
  mapping.set_attachment("m");
  mapping.set_side(v1::Matching::Mapping::GOLDEN);
  status = Create(request);
  EXPECT_EQ(ReasonOf(status), "FIELD_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("matching.mapping.side"));

  comparison.set_golden_source(std::string(5000, 'x'));
  status = Create(request);
  EXPECT_EQ(ReasonOf(status), "FIELD_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("comparison.golden_source"));
}

TEST_F(ComparisonServiceTest, WatchesNameNoMetricsOfWhatIsNotRead) {
  RecordPair("blocks");
  v1::CreateComparisonRequest request = Request();
  v1::Comparison& comparison = *request.mutable_comparison();
  comparison.set_reading(v1::Comparison::UNPROVEN);
  comparison.add_watches("failed == 1 or max_abs > 10");
  const grpc::Status status = Create(request);
  EXPECT_EQ(ReasonOf(status), "FIELD_INVALID");
  EXPECT_THAT(status.error_message(), HasSubstr("max_abs"));
  comparison.set_watches(0, "failed == 1 or target_nan_count > 0");
  EXPECT_TRUE(Create(request).ok());

  comparison.set_reading(static_cast<v1::Comparison::Reading>(17));
  EXPECT_EQ(ReasonOf(Create(request)), "FIELD_INVALID");
}

TEST_F(ComparisonServiceTest, TooManyComparisonsAreRefused) {
  RecordPair("blocks");
  store_.BlockReads();
  Created();
  store_.AwaitRead();
  Created();
  const grpc::Status status = Create(Request());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(ReasonOf(status), "COMPARISONS_EXHAUSTED");
}

TEST_F(ComparisonServiceTest, UnknownComparisonIsNotFoundByEveryCall) {
  for (const std::string name : {"c-000009", "bogus", ""}) {
    grpc::ClientContext contexts[6];
    v1::Comparison comparison;
    v1::GetComparisonRequest get;
    get.set_comparison(name);
    EXPECT_EQ(ReasonOf(stub_->GetComparison(&contexts[0], get, &comparison)),
              "COMPARISON_NOT_FOUND");
    v1::CancelComparisonRequest cancel;
    cancel.set_comparison(name);
    EXPECT_EQ(
        ReasonOf(stub_->CancelComparison(&contexts[1], cancel, &comparison)),
        "COMPARISON_NOT_FOUND");
    v1::DeleteComparisonRequest remove;
    remove.set_comparison(name);
    google::protobuf::Empty empty;
    EXPECT_EQ(ReasonOf(stub_->DeleteComparison(&contexts[2], remove, &empty)),
              "COMPARISON_NOT_FOUND");
    v1::ListComparisonRowsRequest list;
    list.set_comparison(name);
    v1::ListComparisonRowsResponse page;
    EXPECT_EQ(ReasonOf(stub_->ListComparisonRows(&contexts[3], list, &page)),
              "COMPARISON_NOT_FOUND");
    std::vector<v1::ComparisonRow> rows;
    EXPECT_EQ(ReasonOf(Stream(name, 0, rows, comparison)),
              "COMPARISON_NOT_FOUND");
    v1::AddRowMetricsRequest add;
    add.set_comparison(name);
    EXPECT_EQ(ReasonOf(stub_->AddRowMetrics(&contexts[5], add, &comparison)),
              "COMPARISON_NOT_FOUND");
  }
}

TEST_F(ComparisonServiceTest, AddedMetricsComeBackWithRowsOfAnySize) {
  constexpr int kRows = 256;
  constexpr int kRowsPerCall = 128;
  for (int i = 0; i < kRows; ++i) RecordPair(fmt::format("op{}", i), 1);
  const std::string name = Created();
  AwaitEnd(name);
  v1::Comparison comparison;
  v1::AddRowMetricsRequest request;
  request.set_comparison(name);
  for (int row = 0; row < kRows; ++row) {
    v1::AddRowMetricsRequest::RowMetrics& added = *request.add_rows();
    added.set_row(row);
    for (int i = 0; i < 16; ++i) {
      v1::CustomMetric& metric = *added.add_metrics();
      metric.set_metric(fmt::format("m{}", i));
      metric.set_value(i);
      metric.set_text(std::string(1024, 'x'));
    }
    if (request.rows_size() < kRowsPerCall) continue;
    grpc::ClientContext context;
    const grpc::Status status =
        stub_->AddRowMetrics(&context, request, &comparison);
    ASSERT_TRUE(status.ok()) << status.error_message();
    request.clear_rows();
  }
  EXPECT_EQ(comparison.custom_metrics_size(), 16);
  // All metrics together would exceed the size of a message that clients
  // accept.
  std::vector<v1::ComparisonRow> rows;
  v1::Comparison last;
  const grpc::Status status = Stream(name, 0, rows, last);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(rows.size(), size_t{kRows});
  for (const v1::ComparisonRow& row : rows) {
    EXPECT_EQ(row.custom_metrics_size(), 16);
  }
  EXPECT_EQ(last.custom_metrics_size(), 16);

  request.add_rows()->set_row(kRows);
  grpc::ClientContext context;
  const grpc::Status refused =
      stub_->AddRowMetrics(&context, request, &comparison);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(ReasonOf(refused), "FIELD_INVALID");
}

TEST_F(ComparisonServiceTest, BadPagesAreRefused) {
  const std::string name = Created();
  AwaitEnd(name);
  v1::ListComparisonRowsRequest request;
  v1::ListComparisonRowsResponse page;
  const auto reason = [&] {
    grpc::ClientContext context;
    return ReasonOf(stub_->ListComparisonRows(&context, request, &page));
  };
  request.set_comparison(name);
  request.set_page_size(-1);
  EXPECT_EQ(reason(), "FIELD_INVALID");
  request.set_page_size(0);
  request.set_page_token("bogus");
  EXPECT_EQ(reason(), "PAGE_TOKEN_INVALID");
  request.clear_page_token();
  request.add_verdicts(v1::VERDICT_UNSPECIFIED);
  EXPECT_EQ(reason(), "FIELD_INVALID");
  request.clear_verdicts();
  request.add_rows(-1);
  EXPECT_EQ(reason(), "FIELD_INVALID");
  for (int i = 0; i < 1000; ++i) request.add_rows(i);
  EXPECT_EQ(reason(), "FIELD_INVALID");
  request.clear_rows();
  request.add_op_patterns("");
  EXPECT_EQ(reason(), "FIELD_INVALID");
  std::vector<v1::ComparisonRow> rows;
  v1::Comparison last;
  EXPECT_EQ(ReasonOf(Stream(name, -1, rows, last)), "FIELD_INVALID");
}

}  // namespace
}  // namespace msitd::service
