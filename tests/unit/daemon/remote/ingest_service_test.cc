// SPDX-License-Identifier: Apache-2.0
#include "daemon/remote/ingest_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "protos/base/resource_name.h"
#include "protos/chunk/chunk_format.h"
#include "protos/status/status.h"
#include "tests/unit/daemon/service/service_fixture.h"

namespace msitd::service {
namespace {

using chunk::ChunkHeader;
using chunk::RecordDescriptor;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using testing::Patched;
using testing::ProducedTensor;
using testing::Producer;

constexpr size_t kRecord = sizeof(ChunkHeader);

class IngestServiceTest : public EitherStoreFixture {
 protected:
  // Expects the tensors that Producer::Chunk creates for chunks 0 to `count` -
  // 1.
  void ExpectReadable(const Producer& producer, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      v1::GetTensorRequest request;
      request.set_name(FormatTensorName(
          producer.KeyOf({.op = "op", .token = i, .values = {}})));
      v1::Tensor tensor;
      const grpc::Status status = Invoke(
          *tensors_, &v1::TensorService::Stub::GetTensor, request, tensor);
      ASSERT_TRUE(status.ok()) << i << ": " << status.error_message();
      EXPECT_EQ(tensor.summary().min(), static_cast<double>(i));
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Stores, IngestServiceTest,
                         ::testing::Values(StoreKind::kFake, StoreKind::kReal),
                         StoreName);

TEST_P(IngestServiceTest, AcknowledgesEveryChunk) {
  Producer producer("run", 3, 0x8000000000000001);
  const auto stream = OpenChunks(producer);
  ASSERT_EQ(stream->AwaitOpened(), 0);
  for (uint64_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(stream->Write(producer.Chunk(i)));
  }
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(stream->committed(), 50);
  ExpectReadable(producer, 50);
}

// Offsets are defined in chunk_format.h.
struct SpoiledChunk {
  std::string what;
  std::string reason;
  std::string (*spoil)(const std::string& good);
};

std::vector<SpoiledChunk> SpoiledHeaders() {
  return {
      {"empty", "CHUNK_MALFORMED",
       [](const std::string&) { return std::string(); }},
      {"text", "CHUNK_MALFORMED",
       [](const std::string&) { return std::string(8192, 'x'); }},
      {"cut", "CHUNK_MALFORMED",
       [](const std::string& good) { return good.substr(0, 4096); }},
      {"too long", "CHUNK_MALFORMED",
       [](const std::string& good) { return good + std::string(4096, '\0'); }},
      {"version", "CHUNK_VERSION_UNSUPPORTED",
       [](const std::string& good) {
         return Patched<uint16_t>(good, offsetof(ChunkHeader, version), 99);
       }},
      {"head size", "CHUNK_MALFORMED",
       [](const std::string& good) {
         return Patched<uint32_t>(good, offsetof(ChunkHeader, head_bytes),
                                  0xffffffff);
       }},
      {"records", "CHUNK_MALFORMED",
       [](const std::string& good) {
         return Patched<uint32_t>(good, offsetof(ChunkHeader, record_count),
                                  0xffffffff);
       }},
      {"payload size", "CHUNK_MALFORMED",
       [](const std::string& good) {
         return Patched<uint64_t>(good, offsetof(ChunkHeader, payload_bytes),
                                  uint64_t{1} << 60);
       }},
      {"run", "NAME_TOO_LONG",
       [](const std::string& good) {
         return Patched<uint32_t>(good, offsetof(ChunkHeader, run) + 4, 200);
       }},
      {"rank", "RANK_OUT_OF_RANGE",
       [](const std::string& good) {
         return Patched<int32_t>(good, offsetof(ChunkHeader, rank), -1);
       }},
  };
}

std::vector<SpoiledChunk> SpoiledRecords() {
  return {
      {"token", "TOKEN_OUT_OF_RANGE",
       [](const std::string& good) {
         return Patched<int64_t>(
             good, kRecord + offsetof(RecordDescriptor, token), -7);
       }},
      {"call", "CALL_OUT_OF_RANGE",
       [](const std::string& good) {
         return Patched<int32_t>(
             good, kRecord + offsetof(RecordDescriptor, call), -7);
       }},
      {"op", "NAME_INVALID",
       [](const std::string& good) {
         return Patched<uint32_t>(
             good, kRecord + offsetof(RecordDescriptor, op) + 4, 0);
       }},
      {"io", "UNKNOWN_IO",
       [](const std::string& good) {
         return Patched<uint8_t>(good, kRecord + offsetof(RecordDescriptor, io),
                                 77);
       }},
      {"dtype", "UNKNOWN_DTYPE",
       [](const std::string& good) {
         return Patched<uint8_t>(
             good, kRecord + offsetof(RecordDescriptor, dtype), 99);
       }},
      {"shape", "SHAPE_MISMATCH",
       [](const std::string& good) {
         return Patched<uint8_t>(good,
                                 kRecord + offsetof(RecordDescriptor, dtype),
                                 static_cast<uint8_t>(DType::kFloat64));
       }},
      {"part", "PART_MISPLACED",
       [](const std::string& good) {
         return Patched<uint64_t>(
             good, kRecord + offsetof(RecordDescriptor, part_offset), 1);
       }},
  };
}

TEST_P(IngestServiceTest, MalformedChunksEndTheirStreamAndNothingElse) {
  std::vector<SpoiledChunk> cases = SpoiledHeaders();
  for (const SpoiledChunk& c : SpoiledRecords()) cases.push_back(c);
  uint64_t stream_id = 100;
  for (const SpoiledChunk& c : cases) {
    SCOPED_TRACE(c.what);
    ++stream_id;
    Producer producer("run" + std::to_string(stream_id), 0, stream_id);
    const auto stream = OpenChunks(producer);
    ASSERT_EQ(stream->AwaitOpened(), 0);
    stream->Write(producer.Chunk(0));
    stream->Write(c.spoil(producer.Chunk(1)));
    const ErrorDetails error = DetailsOf(stream->Finish());
    EXPECT_EQ(error.code, grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(error.reason, c.reason) << error.message;
    EXPECT_EQ(error.domain, "msitd");
    EXPECT_FALSE(error.message.empty());
    EXPECT_EQ(stream->committed(), 1);
    ExpectReadable(producer, 1);
  }
}

TEST_P(IngestServiceTest, OpeningsThatMakeNoSenseAreRefused) {
  struct Case {
    std::string outcome;
    void (*spoil)(v1::OpenStream& open);
  };
  const Case cases[] = {
      {"3 NAME_INVALID", [](v1::OpenStream& open) { open.set_run(""); }},
      {"3 NAME_TOO_LONG",
       [](v1::OpenStream& open) { open.set_run(std::string(129, 'r')); }},
      {"3 RANK_OUT_OF_RANGE", [](v1::OpenStream& open) { open.set_rank(-1); }},
      {"3 RANK_OUT_OF_RANGE", [](v1::OpenStream& open) { open.set_rank(8); }},
      {"3 FIELD_INVALID", [](v1::OpenStream& open) { open.set_world_size(0); }},
      {"3 FIELD_INVALID", [](v1::OpenStream& open) { open.set_stream_id(0); }},
      {"3 FIELD_INVALID",
       [](v1::OpenStream& open) {
         open.set_user_agent(std::string(257, 'a'));
       }},
  };
  for (const Case& c : cases) {
    v1::OpenStream open = OpenOf(Producer("run", 0, 7));
    c.spoil(open);
    ChunkStream stream(*ingest_, open);
    EXPECT_EQ(Outcome(stream.Finish()), c.outcome);
  }
}

TEST_P(IngestServiceTest, MessagesOutOfPlaceEndTheStream) {
  Producer producer("run", 0, 7);
  grpc::ClientContext context;
  const auto unopened = ingest_->WriteChunks(&context);
  v1::WriteChunksRequest request;
  request.set_chunk(producer.Chunk(0));
  unopened->Write(request);
  unopened->WritesDone();
  EXPECT_EQ(Outcome(unopened->Finish()), "3 FIELD_INVALID");

  grpc::ClientContext silent_context;
  const auto silent = ingest_->WriteChunks(&silent_context);
  silent->WritesDone();
  EXPECT_EQ(Outcome(silent->Finish()), "3 FIELD_INVALID");

  const auto twice = OpenChunks(producer);
  request.Clear();
  *request.mutable_open() = OpenOf(producer);
  twice->Write(request);
  EXPECT_EQ(Outcome(twice->Finish()), "3 FIELD_INVALID");

  const auto empty = OpenChunks(producer);
  empty->Write(v1::WriteChunksRequest());
  EXPECT_EQ(Outcome(empty->Finish()), "3 FIELD_INVALID");

  const auto negative = OpenChunks(producer);
  request.Clear();
  request.mutable_coverage()->set_seen_count(-1);
  negative->Write(request);
  EXPECT_EQ(Outcome(negative->Finish()), "3 FIELD_INVALID");
}

TEST_P(IngestServiceTest, GapTellsWhatWasExpected) {
  Producer producer("run", 0, 7);
  const auto stream = OpenChunks(producer);
  stream->Write(producer.Chunk(0));
  stream->Write(producer.Chunk(2));
  const ErrorDetails error = DetailsOf(stream->Finish());
  EXPECT_EQ(error.code, grpc::StatusCode::OUT_OF_RANGE);
  EXPECT_EQ(error.reason, "CHUNK_OUT_OF_ORDER");
  EXPECT_THAT(error.metadata,
              ElementsAre(Pair("expected", "1"), Pair("received", "2")));
  EXPECT_EQ(stream->committed(), 1);
}

TEST_P(IngestServiceTest, ChunkOfAnotherStreamIsMisdirected) {
  Producer producer("run", 0, 7);
  Producer other("run", 1, 7);
  const auto stream = OpenChunks(producer);
  stream->Write(other.Chunk(0));
  EXPECT_EQ(Outcome(stream->Finish()), "3 CHUNK_MISDIRECTED");
}

TEST_P(IngestServiceTest, RanksAndWorldSizesAreKeptApart) {
  Producer producer("run", 0, 7);
  const auto stream = OpenChunks(producer);
  ASSERT_EQ(stream->AwaitOpened(), 0);
  EXPECT_EQ(Outcome(OpenChunks(Producer("run", 0, 8))->Finish()),
            "6 RANK_BUSY");
  ChunkStream other(*ingest_, OpenOf(Producer("run", 1, 9), 4));
  EXPECT_EQ(Outcome(other.Finish()), "9 RUN_EXISTS");
}

TEST_P(IngestServiceTest, StreamIsResumedFromWhatWasCommitted) {
  Producer producer("run", 0, 7);
  const auto first = OpenChunks(producer);
  for (uint64_t i = 0; i < 5; ++i) first->Write(producer.Chunk(i));
  ASSERT_EQ(first->AwaitCommit(5), 5);
  // The first connection is still open. The producer can reconnect
  // nevertheless.
  const auto second = OpenChunks(producer);
  ASSERT_EQ(second->AwaitOpened(), 5);
  EXPECT_EQ(first->Finish().error_code(), grpc::StatusCode::ABORTED);
  second->Write(producer.Chunk(3));
  second->Write(producer.Chunk(4));
  second->Write(producer.Chunk(5));
  EXPECT_TRUE(second->Finish().ok());
  EXPECT_EQ(second->committed(), 6);
  ExpectReadable(producer, 6);
}

TEST_P(IngestServiceTest, StreamIsResumedBehindARestart) {
  Producer producer("run", 0, 7);
  const auto first = OpenChunks(producer);
  for (uint64_t i = 0; i < 5; ++i) first->Write(producer.Chunk(i));
  ASSERT_EQ(first->AwaitCommit(5), 5);
  RestartWithStore();
  EXPECT_EQ(DetailsOf(first->Finish()).code, grpc::StatusCode::UNAVAILABLE);
  const auto second = OpenChunks(producer);
  ASSERT_EQ(second->AwaitOpened(), 5);
  second->Write(producer.Chunk(5));
  EXPECT_TRUE(second->Finish().ok());
  ExpectReadable(producer, 6);
}

TEST_P(IngestServiceTest, StreamCutInTheMiddleKeepsWhatWasAcknowledged) {
  Producer producer("run", 0, 7);
  {
    const auto stream = OpenChunks(producer);
    for (uint64_t i = 0; i < 5; ++i) stream->Write(producer.Chunk(i));
    ASSERT_GE(stream->AwaitCommit(3), 3);
    stream->Cancel();
    EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  ExpectReadable(producer, 3);
  const auto stream = OpenChunks(producer);
  const int64_t next = stream->AwaitOpened();
  EXPECT_GE(next, 3);
  stream->Write(producer.Chunk(static_cast<uint64_t>(next)));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_P(IngestServiceTest, LargeTensorArrivesInParts) {
  constexpr uint64_t kBytes = 2 * kPartBytes + 1000;
  Producer producer("run", 0, 7);
  const auto stream = OpenChunks(producer);
  for (uint64_t part = 0; part < 3; ++part) {
    ASSERT_TRUE(stream->Write(producer.Part(part, "big", kBytes, part,
                                            static_cast<char>('a' + part))));
  }
  const grpc::Status status = stream->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  v1::GetTensorRequest request;
  request.set_name(
      FormatTensorName(producer.KeyOf({.op = "big", .values = {}})));
  v1::Tensor tensor;
  ASSERT_TRUE(
      Invoke(*tensors_, &v1::TensorService::Stub::GetTensor, request, tensor)
          .ok());
  EXPECT_EQ(tensor.size_bytes(), static_cast<int64_t>(kBytes));
  EXPECT_EQ(tensor.summary().min(), 'a');
  EXPECT_EQ(tensor.summary().max(), 'c');
}

using FakeIngestServiceTest = ServiceFixture;

TEST_F(FakeIngestServiceTest, StreamsBeyondTheLimitAreRefused) {
  StopNode();
  config_.max_streams = 1;
  Start();
  const auto stream = OpenChunks(Producer("run", 0, 7));
  ASSERT_EQ(stream->AwaitOpened(), 0);
  const ErrorDetails error =
      DetailsOf(OpenChunks(Producer("run", 1, 8))->Finish());
  EXPECT_EQ(error.code, grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(error.reason, "STREAMS_EXHAUSTED");
  EXPECT_TRUE(error.has_retry_info);
}

TEST_F(FakeIngestServiceTest, StorageFailuresAskToResendLater) {
  Producer producer("run", 0, 7);
  fake_->FailAppends(WithReason(absl::UnavailableError("fsync: i/o error"),
                                ErrorReason::kStorageFailed));
  auto stream = OpenChunks(producer);
  stream->Write(producer.Chunk(0));
  ErrorDetails error = DetailsOf(stream->Finish());
  EXPECT_EQ(error.code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(error.reason, "STORAGE_FAILED");
  EXPECT_TRUE(error.has_retry_info);
  v1::NodeStatus status;
  Invoke(*nodes_, &v1::NodeService::Stub::GetNodeStatus, {}, status);
  EXPECT_EQ(status.storage_state(), v1::NodeStatus::FAILED);
  EXPECT_THAT(status.storage_error(), HasSubstr("fsync"));

  fake_->FailAppends(
      WithReason(absl::ResourceExhaustedError("full"), ErrorReason::kDiskFull));
  stream = OpenChunks(producer);
  stream->Write(producer.Chunk(0));
  EXPECT_EQ(Outcome(stream->Finish()), "8 DISK_FULL");
  Invoke(*nodes_, &v1::NodeService::Stub::GetNodeStatus, {}, status);
  EXPECT_EQ(status.storage_state(), v1::NodeStatus::FULL);

  fake_->FailAppends(absl::OkStatus());
  stream = OpenChunks(producer);
  stream->Write(producer.Chunk(0));
  EXPECT_TRUE(stream->Finish().ok());
  Invoke(*nodes_, &v1::NodeService::Stub::GetNodeStatus, {}, status);
  EXPECT_EQ(status.storage_state(), v1::NodeStatus::OK);
}

// The memory for chunks and the windows are much smaller than the amount of
// data.
TEST_F(FakeIngestServiceTest, ManyFastStreamsShareLittleMemory) {
  StopNode();
  config_.ingest_buffer_bytes = 16 << 20;
  config_.stream_window_bytes = 8 << 20;
  Start();
  constexpr int kStreams = 6;
  constexpr uint64_t kParts = 12;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kStreams; ++rank) {
    threads.emplace_back([this, rank] {
      Producer producer("run", rank, 100 + rank);
      const auto stream = OpenChunks(producer);
      for (uint64_t i = 0; i < kParts; ++i) {
        if (!stream->Write(
                producer.Part(i, "big", kParts * kPartBytes, i, 'x'))) {
          break;
        }
      }
      const grpc::Status status = stream->Finish();
      EXPECT_TRUE(status.ok()) << status.error_message();
      EXPECT_EQ(stream->committed(), static_cast<int64_t>(kParts));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(store_->upkeep().Stats().committed_bytes,
            kStreams * kParts * kPartBytes);
}

TEST_F(FakeIngestServiceTest, StopCommitsWhatWasReceived) {
  Producer producer("run", 0, 7);
  const auto stream = OpenChunks(producer);
  ASSERT_EQ(stream->AwaitOpened(), 0);
  fake_->BlockAppends();
  stream->Write(producer.Chunk(0));
  fake_->AwaitAppend();
  stream->Write(producer.Chunk(1));
  stream->Write(producer.Chunk(2));
  while (node_->pipeline().Stats().ready_bytes < 2 * 8192) {
    std::this_thread::yield();
  }
  std::thread stopper([this] { StopNode(); });
  fake_->UnblockAppends();
  stopper.join();
  const ErrorDetails error = DetailsOf(stream->Finish());
  EXPECT_EQ(error.code, grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(error.reason, "NOT_SERVING");
  EXPECT_EQ(stream->committed(), 3);
}

}  // namespace
}  // namespace msitd::service
