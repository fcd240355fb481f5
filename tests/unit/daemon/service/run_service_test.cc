// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/run_service.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/daemon/service/service_fixture.h"

namespace msitd::service {
namespace {

using ::testing::ElementsAre;
using Stub = v1::RunService::Stub;
using testing::Producer;

class RunServiceTest : public EitherStoreFixture {
 protected:
  grpc::Status Create(const std::string& name, int32_t world_size = 0) {
    v1::CreateRunRequest request;
    request.mutable_run()->set_name(name);
    request.mutable_run()->set_world_size(world_size);
    v1::Run run;
    return Invoke(*runs_, &Stub::CreateRun, request, run);
  }

  grpc::Status Get(const std::string& name, v1::Run& run) {
    v1::GetRunRequest request;
    request.set_run(name);
    return Invoke(*runs_, &Stub::GetRun, request, run);
  }

  grpc::Status Seal(const std::string& name, v1::Run& run) {
    v1::SealRunRequest request;
    request.set_run(name);
    return Invoke(*runs_, &Stub::SealRun, request, run);
  }

  grpc::Status Delete(const std::string& name) {
    v1::DeleteRunRequest request;
    request.set_run(name);
    google::protobuf::Empty empty;
    return Invoke(*runs_, &Stub::DeleteRun, request, empty);
  }

  grpc::Status List(int32_t page_size, const std::string& token,
                    std::vector<std::string>& names, std::string& next) {
    v1::ListRunsRequest request;
    request.set_page_size(page_size);
    request.set_page_token(token);
    v1::ListRunsResponse response;
    const grpc::Status status =
        Invoke(*runs_, &Stub::ListRuns, request, response);
    names.clear();
    for (const v1::Run& run : response.runs()) names.push_back(run.name());
    next = response.next_page_token();
    return status;
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, RunServiceTest,
                         ::testing::Values(StoreKind::kFake, StoreKind::kReal),
                         StoreName);

TEST_P(RunServiceTest, CreatesAndGetsARunWithItsLabels) {
  v1::CreateRunRequest request;
  request.mutable_run()->set_name("gölden run/1");
  request.mutable_run()->set_world_size(2);
  (*request.mutable_run()->mutable_labels())["model"] = "m 1";
  v1::Run created;
  ASSERT_TRUE(Invoke(*runs_, &Stub::CreateRun, request, created).ok());
  v1::Run run;
  ASSERT_TRUE(Get("gölden run/1", run).ok());
  EXPECT_EQ(run.world_size(), 2);
  EXPECT_EQ(run.labels().at("model"), "m 1");
  EXPECT_EQ(run.state(), v1::Run::ACTIVE);
  EXPECT_GT(run.create_time().seconds(), 0);
  EXPECT_FALSE(run.has_seal_time());
  EXPECT_EQ(run.counters().tensor_count(), 0);
  EXPECT_EQ(created.name(), run.name());
}

TEST_P(RunServiceTest, CreateRefusesWhatItsProtoForbids) {
  EXPECT_EQ(Outcome(Create("")), "3 NAME_INVALID");
  EXPECT_EQ(Outcome(Create(std::string("a\0b", 3))), "3 NAME_INVALID");
  EXPECT_EQ(Outcome(Create(std::string(128, 'r'))), "0 ");
  EXPECT_EQ(Outcome(Create(std::string(129, 'r'))), "3 NAME_TOO_LONG");
  EXPECT_EQ(Outcome(Create("r", -1)), "3 FIELD_INVALID");
  EXPECT_EQ(Outcome(Create("r", (1 << 20) + 1)), "3 FIELD_INVALID");
  EXPECT_EQ(Outcome(Create("r", 4)), "0 ");
  EXPECT_EQ(Outcome(Create("r", 4)), "6 RUN_EXISTS");
}

TEST_P(RunServiceTest, CreateBoundsLabels) {
  const auto create = [this](const std::map<std::string, std::string>& labels) {
    v1::CreateRunRequest request;
    request.mutable_run()->set_name("r");
    request.mutable_run()->mutable_labels()->insert(labels.begin(),
                                                    labels.end());
    v1::Run run;
    return Outcome(Invoke(*runs_, &Stub::CreateRun, request, run));
  };
  std::map<std::string, std::string> many;
  for (int i = 0; i < 65; ++i) many[std::to_string(i)] = "v";
  EXPECT_EQ(create(many), "3 FIELD_INVALID");
  EXPECT_EQ(create({{"k", std::string(1024, 'v')}}), "3 FIELD_INVALID");
  EXPECT_EQ(create({{"", "v"}}), "3 FIELD_INVALID");
  many.erase("0");
  EXPECT_EQ(create(many), "0 ");
}

TEST_P(RunServiceTest, UnknownRunIsNotFound) {
  v1::Run run;
  for (const std::string& name :
       {std::string("none"), std::string(), std::string(5000, 'x')}) {
    EXPECT_EQ(Outcome(Get(name, run)), "5 RUN_NOT_FOUND");
    EXPECT_EQ(Outcome(Seal(name, run)), "5 RUN_NOT_FOUND");
    EXPECT_EQ(Outcome(Delete(name)), "5 RUN_NOT_FOUND");
  }
}

TEST_P(RunServiceTest, PagesOfRunsWithLongLabelsAreShort) {
  constexpr int kRuns = 40;
  for (int i = 0; i < kRuns; ++i) {
    v1::CreateRunRequest request;
    request.mutable_run()->set_name("run-" + std::to_string(100 + i));
    for (int label = 0; label < 64; ++label) {
      (*request.mutable_run()->mutable_labels())[std::to_string(label)] =
          std::string(1000, 'v');
    }
    v1::Run run;
    ASSERT_TRUE(Invoke(*runs_, &Stub::CreateRun, request, run).ok());
  }
  std::string next;
  int pages = 0;
  int seen = 0;
  do {
    v1::ListRunsRequest request;
    request.set_page_size(1000);
    request.set_page_token(next);
    v1::ListRunsResponse response;
    ASSERT_TRUE(Invoke(*runs_, &Stub::ListRuns, request, response).ok());
    EXPECT_LT(response.ByteSizeLong(), (1 << 20) + 80'000);
    for (const v1::Run& run : response.runs()) {
      EXPECT_EQ(run.name(), "run-" + std::to_string(100 + seen++));
    }
    next = response.next_page_token();
    ++pages;
  } while (!next.empty() && pages < 10);
  EXPECT_EQ(seen, kRuns);
  EXPECT_EQ(pages, 3);
}

TEST_P(RunServiceTest, PageOfRunsThatClaimTheLargestWorldIsShort) {
  constexpr int kRuns = 1000;
  constexpr int32_t kWorldSize = 1 << 20;
  for (int i = 0; i < kRuns; ++i) {
    const std::string name = "run-" + std::to_string(i);
    ASSERT_TRUE(store_->runs().CreateRun({name, kWorldSize, {}}).ok());
  }
  v1::ListRunsRequest request;
  request.set_page_size(kRuns);
  v1::ListRunsResponse response;
  ASSERT_TRUE(Invoke(*runs_, &Stub::ListRuns, request, response).ok());
  ASSERT_EQ(response.runs_size(), kRuns);
  for (const v1::Run& run : response.runs()) {
    EXPECT_TRUE(run.partial());
    ASSERT_EQ(run.ranks_lacking_size(), 1);
    EXPECT_EQ(run.ranks_lacking(0).first(), 0);
    EXPECT_EQ(run.ranks_lacking(0).last(), kWorldSize - 1);
  }
}

TEST_P(RunServiceTest, ListsInTheOrderOfNamesPageByPage) {
  for (const char* name : {"b", "a", "e", "d", "c"}) Create(name);
  std::vector<std::string> names;
  std::string next;
  ASSERT_TRUE(List(2, "", names, next).ok());
  EXPECT_THAT(names, ElementsAre("a", "b"));
  ASSERT_TRUE(List(2, next, names, next).ok());
  EXPECT_THAT(names, ElementsAre("c", "d"));
  ASSERT_TRUE(List(2, next, names, next).ok());
  EXPECT_THAT(names, ElementsAre("e"));
  EXPECT_EQ(next, "");
  ASSERT_TRUE(List(5, "", names, next).ok());
  EXPECT_EQ(next, "");
  ASSERT_TRUE(List(0, "", names, next).ok());
  EXPECT_EQ(names.size(), 5u);
}

TEST_P(RunServiceTest, ListRefusesForeignTokensAndNegativeSizes) {
  std::vector<std::string> names;
  std::string next;
  EXPECT_EQ(Outcome(List(-1, "", names, next)), "3 FIELD_INVALID");
  EXPECT_EQ(Outcome(List(1, "!!", names, next)), "3 PAGE_TOKEN_INVALID");
  EXPECT_EQ(Outcome(List(1, "QUJD", names, next)), "3 PAGE_TOKEN_INVALID");
}

TEST_P(RunServiceTest, SealEndsStreamsAndStaysSealed) {
  Producer producer("run", 0, 7);
  const auto stream = OpenChunks(producer);
  ASSERT_EQ(stream->AwaitOpened(), 0);
  stream->Write(producer.Chunk(0));
  ASSERT_EQ(stream->AwaitCommit(1), 1);
  v1::Run run;
  ASSERT_TRUE(Seal("run", run).ok());
  EXPECT_EQ(run.state(), v1::Run::SEALED);
  EXPECT_TRUE(run.has_seal_time());
  EXPECT_EQ(Outcome(stream->Finish()), "9 RUN_SEALED");
  ASSERT_TRUE(Seal("run", run).ok());
  EXPECT_EQ(Outcome(OpenChunks(producer)->Finish()), "9 RUN_SEALED");
  ASSERT_TRUE(Get("run", run).ok());
  EXPECT_EQ(run.counters().tensor_count(), 1);
}

TEST_P(RunServiceTest, DeleteEndsStreamsAndForgetsTheRun) {
  Producer producer("run", 0, 7);
  const auto stream = OpenChunks(producer);
  ASSERT_EQ(stream->AwaitOpened(), 0);
  stream->Write(producer.Chunk(0));
  ASSERT_EQ(stream->AwaitCommit(1), 1);
  ASSERT_TRUE(Delete("run").ok());
  EXPECT_EQ(Outcome(stream->Finish()), "9 RUN_SEALED");
  v1::Run run;
  EXPECT_EQ(Outcome(Get("run", run)), "5 RUN_NOT_FOUND");
  EXPECT_EQ(Outcome(Delete("run")), "5 RUN_NOT_FOUND");
}

TEST_P(RunServiceTest, CountersTellWhatHappened) {
  Producer first("run", 0, 7);
  Ingest(first, {{{.op = "a", .values = {1}}, {.op = "b", .values = {2}}}});
  Producer again("run", 0, 8);
  const auto stream = OpenChunks(again);
  stream->Write(
      again.Chunk(0, {{.op = "a", .values = {1}}, {.op = "b", .values = {3}}}));
  v1::WriteChunksRequest report;
  report.mutable_coverage()->set_dropped_count(5);
  report.mutable_coverage()->set_truncated_count(2);
  stream->Write(report);
  ASSERT_TRUE(stream->Finish().ok());
  v1::Run run;
  ASSERT_TRUE(Get("run", run).ok());
  EXPECT_EQ(run.counters().tensor_count(), 2);
  EXPECT_EQ(run.counters().size_bytes(), 8);
  EXPECT_EQ(run.counters().duplicate_count(), 1);
  EXPECT_EQ(run.counters().conflict_count(), 1);
  EXPECT_EQ(run.counters().dropped_count(), 5);
  EXPECT_EQ(run.counters().truncated_count(), 2);
}

TEST_P(RunServiceTest, RetentionIsChangedFieldByField) {
  ASSERT_TRUE(Create("run").ok());
  v1::Run run;
  const auto set = [&](const auto& change) {
    v1::SetRunRetentionRequest request;
    request.set_run("run");
    change(*request.mutable_retention());
    return Outcome(Invoke(*runs_, &Stub::SetRunRetention, request, run));
  };
  EXPECT_EQ(set([](v1::Retention& r) {
              r.set_size_bytes_max(5000);
              r.mutable_age_max()->set_seconds(60);
              r.mutable_age_max()->set_nanos(7);
            }),
            "0 ");
  EXPECT_EQ(set([](v1::Retention& r) { r.set_pinned(true); }), "0 ");
  EXPECT_EQ(set([](v1::Retention& r) { r.set_token_count(-1); }),
            "3 FIELD_INVALID");
  EXPECT_EQ(set([](v1::Retention& r) { r.set_size_bytes_max(-1); }),
            "3 FIELD_INVALID");
  EXPECT_EQ(set([](v1::Retention& r) { r.mutable_age_max()->set_seconds(-1); }),
            "3 FIELD_INVALID");
  EXPECT_EQ(set([](v1::Retention& r) { r.set_token_count(3); }), "0 ");
  ASSERT_TRUE(Get("run", run).ok());
  EXPECT_TRUE(run.retention().pinned());
  EXPECT_EQ(run.retention().size_bytes_max(), 5000);
  EXPECT_EQ(run.retention().age_max().seconds(), 60);
  EXPECT_EQ(run.retention().age_max().nanos(), 7);
  EXPECT_EQ(run.retention().token_count(), 3);
  v1::SetRunRetentionRequest request;
  request.set_run("nobody");
  EXPECT_EQ(Outcome(Invoke(*runs_, &Stub::SetRunRetention, request, run)),
            "5 RUN_NOT_FOUND");
}

}  // namespace
}  // namespace msitd::service
