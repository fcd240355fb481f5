// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/node_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "tests/unit/daemon/service/service_fixture.h"

namespace msitd::service {
namespace {

using ::testing::Contains;
using Stub = v1::NodeService::Stub;
using testing::Producer;

class NodeServiceTest : public EitherStoreFixture {};

INSTANTIATE_TEST_SUITE_P(Stores, NodeServiceTest,
                         ::testing::Values(StoreKind::kFake, StoreKind::kReal),
                         StoreName);

TEST_P(NodeServiceTest, CapabilitiesAreComplete) {
  v1::Capabilities capabilities;
  ASSERT_TRUE(Invoke(*nodes_, &Stub::GetCapabilities, {}, capabilities).ok());
  EXPECT_NE(capabilities.version(), "");
  EXPECT_EQ(capabilities.chunk_version(), 4);
  EXPECT_EQ(capabilities.chunk_size_bytes_max(), (512 << 10) + (4 << 20));
  EXPECT_GT(capabilities.read_piece_bytes_max(), 0);
  EXPECT_THAT(capabilities.metrics(), Contains("cosine"));
  ASSERT_EQ(capabilities.metric_table_size(), capabilities.metrics_size());
  for (int i = 0; i < capabilities.metrics_size(); ++i) {
    EXPECT_EQ(capabilities.metric_table(i).name(), capabilities.metrics(i));
    EXPECT_NE(capabilities.metric_table(i).family(),
              v1::Metric::FAMILY_UNSPECIFIED);
  }
  EXPECT_EQ(capabilities.metric_table(0).direction(),
            v1::Metric::HIGHER_IS_BETTER);
  EXPECT_TRUE(capabilities.metric_table(0).in_default_columns());
  EXPECT_NE(capabilities.simd_target(), "");
}

TEST_P(NodeServiceTest, StatusCounts) {
  Producer producer("run", 0, 7);
  Ingest(producer, {{{.op = "a", .values = {1}}, {.op = "b", .values = {2}}}});
  const auto open = OpenChunks(Producer("run", 1, 8));
  ASSERT_EQ(open->AwaitOpened(), 0);
  const auto refused = OpenChunks(Producer("run", 2, 9));
  refused->Write("nonsense");
  EXPECT_FALSE(refused->Finish().ok());
  v1::NodeStatus status;
  ASSERT_TRUE(Invoke(*nodes_, &Stub::GetNodeStatus, {}, status).ok());
  EXPECT_EQ(status.storage_state(), v1::NodeStatus::OK);
  EXPECT_EQ(status.storage_error(), "");
  EXPECT_EQ(status.run_count(), 1);
  EXPECT_EQ(status.open_stream_count(), 1);
  EXPECT_EQ(status.committed_chunk_count(), 1);
  EXPECT_EQ(status.committed_record_count(), 2);
  EXPECT_EQ(status.committed_bytes(), 8);
  EXPECT_EQ(status.refused_chunk_count(), 1);
  EXPECT_GT(status.uptime().seconds() + status.uptime().nanos(), 0);
  EXPECT_EQ(status.active_comparison_count(), 0);
}

TEST_P(NodeServiceTest, StreamsComeByPagesInOrder) {
  std::vector<std::unique_ptr<ChunkStream>> open;
  for (const auto& [run, rank] :
       {std::pair("s", 0), {"r", 2}, {"r", 0}, {"r", 1}}) {
    open.push_back(
        OpenChunks(Producer(run, rank, 7 + static_cast<uint64_t>(rank))));
    ASSERT_EQ(open.back()->AwaitOpened(), 0);
  }
  v1::ListStreamsRequest request;
  request.set_page_size(3);
  v1::ListStreamsResponse first;
  ASSERT_TRUE(Invoke(*nodes_, &Stub::ListStreams, request, first).ok());
  ASSERT_EQ(first.streams_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(first.streams(i).run(), "r");
    EXPECT_EQ(first.streams(i).rank(), i);
    EXPECT_FALSE(first.streams(i).shares_memory());
  }
  request.set_page_token(first.next_page_token());
  v1::ListStreamsResponse second;
  ASSERT_TRUE(Invoke(*nodes_, &Stub::ListStreams, request, second).ok());
  ASSERT_EQ(second.streams_size(), 1);
  EXPECT_EQ(second.streams(0).run(), "s");
  EXPECT_EQ(second.next_page_token(), "");

  request.set_page_token("nonsense");
  EXPECT_EQ(Outcome(Invoke(*nodes_, &Stub::ListStreams, request, second)),
            "3 PAGE_TOKEN_INVALID");
  request.clear_page_token();
  request.set_page_size(-1);
  EXPECT_EQ(Outcome(Invoke(*nodes_, &Stub::ListStreams, request, second)),
            "3 FIELD_INVALID");
}

TEST_P(NodeServiceTest, AStreamTellsWhatBecameDurable) {
  Producer producer("run", 0, 7);
  const auto stream = OpenChunks(producer);
  ASSERT_EQ(stream->AwaitOpened(), 0);
  stream->Write(producer.Chunk(0));
  ASSERT_EQ(stream->AwaitCommit(1), 1);
  v1::ListStreamsResponse found;
  ASSERT_TRUE(Invoke(*nodes_, &Stub::ListStreams, {}, found).ok());
  ASSERT_EQ(found.streams_size(), 1);
  EXPECT_EQ(found.streams(0).committed_chunk_count(), 1);
  EXPECT_GT(found.streams(0).committed_record_count(), 0);
  EXPECT_GT(found.streams(0).committed_size_bytes(), 0);
  EXPECT_EQ(found.streams(0).in_flight_size_bytes(), 0);
  EXPECT_TRUE(stream->Finish().ok());
  ASSERT_TRUE(Invoke(*nodes_, &Stub::ListStreams, {}, found).ok());
  EXPECT_EQ(found.streams_size(), 0);
}

class BusyNodeTest : public ServiceFixture {
 protected:
  // Upper limit of a loop that usually ends much earlier, because of a timeout.
  static constexpr int kTriesMax = 10'000;

  grpc::Status Status(std::chrono::milliseconds timeout) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + timeout);
    v1::NodeStatus status;
    return nodes_->GetNodeStatus(&context, {}, &status);
  }
};

// All threads wait for the disk, and one request waits for a thread.
TEST_F(BusyNodeTest, RequestsBeyondTheQueueAreRefused) {
  // More sealers than threads.
  constexpr int kSealers = 8;
  StopNode();
  config_.query_queue_max = 1;
  Start();
  Producer producer("run", 0, 7);
  const auto stream = OpenChunks(producer);
  fake_->BlockAppends();
  stream->Write(producer.Chunk(0));
  fake_->AwaitAppend();
  std::vector<std::thread> sealers;
  std::atomic<int> sealed_count = 0;
  for (int i = 0; i < kSealers; ++i) {
    sealers.emplace_back([this, &sealed_count] {
      v1::SealRunRequest request;
      request.set_run("run");
      grpc::Status sealed;
      for (int i = 0; i < kTriesMax; ++i) {
        v1::Run run;
        sealed = Invoke(*runs_, &v1::RunService::Stub::SealRun, request, run);
        if (sealed.error_code() != grpc::StatusCode::RESOURCE_EXHAUSTED) break;
      }
      sealed_count += sealed.ok() ? 1 : 0;
    });
  }
  grpc::Status status;
  for (int i = 0; i < kTriesMax; ++i) {
    status = Status(std::chrono::milliseconds(50));
    if (!status.ok() &&
        status.error_code() != grpc::StatusCode::DEADLINE_EXCEEDED) {
      break;
    }
  }
  const ErrorDetails error = DetailsOf(status);
  EXPECT_EQ(error.code, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(error.reason, "REQUESTS_EXHAUSTED");
  EXPECT_TRUE(error.has_retry_info);
  fake_->UnblockAppends();
  for (std::thread& sealer : sealers) sealer.join();
  EXPECT_GE(sealed_count, 1);
  for (int i = 0; i < kTriesMax && !status.ok(); ++i) {
    status = Status(std::chrono::seconds(5));
  }
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace msitd::service
