// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/grpc/wire.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "msitd/v1/ingest_service.pb.h"

// Checks that generated code parses messages that we encode by hand, and vice
// versa.
namespace msitd::libmsit {
namespace {

TEST(WireTest, OpenStreamReadsBack) {
  const StreamIdentity identity{.run = "läuft",
                                .rank = 300,
                                .world_size = 1 << 20,
                                .stream_id = 0x9234567890abcdef,
                                .user_agent = "test/1",
                                .if_exists = IfExists::kNew,
                                .job = "launch"};
  v1::WriteChunksRequest request;
  ASSERT_TRUE(request.ParseFromString(EncodeOpen(identity)));
  ASSERT_TRUE(request.has_open());
  EXPECT_EQ(request.open().run(), "läuft");
  EXPECT_EQ(request.open().rank(), 300);
  EXPECT_EQ(request.open().world_size(), 1 << 20);
  EXPECT_EQ(static_cast<uint64_t>(request.open().stream_id()),
            0x9234567890abcdef);
  EXPECT_EQ(request.open().user_agent(), "test/1");
  EXPECT_EQ(request.open().if_exists(), v1::IF_EXISTS_NEW);
  EXPECT_EQ(request.open().job(), "launch");
}

TEST(WireTest, RankZeroWithoutUserAgentReadsBack) {
  StreamIdentity identity;
  identity.run = "r";
  v1::WriteChunksRequest request;
  ASSERT_TRUE(request.ParseFromString(EncodeOpen(identity)));
  EXPECT_EQ(request.open().rank(), 0);
  EXPECT_EQ(request.open().world_size(), 1);
  EXPECT_EQ(request.open().user_agent(), "");
  EXPECT_EQ(request.open().if_exists(), v1::IF_EXISTS_FAIL);
  EXPECT_EQ(request.open().job(), "");
}

TEST(WireTest, ChunkWithItsPrefixReadsBack) {
  for (const size_t size : {0u, 1u, 127u, 128u, 20'000u, 3'000'000u}) {
    const std::string chunk(size, 'c');
    v1::WriteChunksRequest request;
    ASSERT_TRUE(request.ParseFromString(EncodeChunkPrefix(size) + chunk));
    EXPECT_TRUE(request.has_chunk());
    EXPECT_EQ(request.chunk(), chunk);
  }
}

TEST(WireTest, CoverageReadsBack) {
  v1::WriteChunksRequest request;
  ASSERT_TRUE(
      request.ParseFromString(EncodeCoverage({.seen_count = 1'000'000'007,
                                              .filtered_count = 300,
                                              .dropped_count = 20,
                                              .truncated_count = 1,
                                              .degraded_count = 7,
                                              .recording_ns = 5'000'000'000,
                                              .open_ns = INT64_MAX},
                                             1'000'001)));
  EXPECT_EQ(request.coverage().seen_count(), 1'000'000'007);
  EXPECT_EQ(request.coverage().filtered_count(), 300);
  EXPECT_EQ(request.coverage().dropped_count(), 20);
  EXPECT_EQ(request.coverage().truncated_count(), 1);
  EXPECT_EQ(request.coverage().degraded_count(), 7);
  EXPECT_EQ(request.coverage().token_end(), 1'000'001);
  EXPECT_EQ(request.coverage().recording_ns(), 5'000'000'000);
  EXPECT_EQ(request.coverage().open_ns(), INT64_MAX);
  ASSERT_TRUE(request.ParseFromString(EncodeCoverage({}, 0)));
  EXPECT_TRUE(request.has_coverage()) << "nothing was handed over";
}

TEST(WireTest, CommittedCountIsRead) {
  for (const int64_t count : {int64_t{0}, int64_t{1}, INT64_MAX}) {
    v1::WriteChunksResponse response;
    response.set_committed_chunk_count(count);
    EXPECT_EQ(DecodeAnswer(response.SerializeAsString())->committed_count,
              static_cast<uint64_t>(count));
  }
}

TEST(WireTest, CapturePolicyIsRead) {
  v1::WriteChunksResponse response;
  response.set_committed_chunk_count(3);
  EXPECT_EQ(DecodeAnswer(response.SerializeAsString())->capture_policy, "");
  response.set_capture_policy("policy");
  const std::string bytes = response.SerializeAsString();
  EXPECT_EQ(DecodeAnswer(bytes)->capture_policy, "policy");
  EXPECT_EQ(DecodeAnswer(bytes)->committed_count, 3u);
}

TEST(WireTest, RunAndConflictsAreRead) {
  v1::WriteChunksResponse response;
  EXPECT_EQ(DecodeAnswer(response.SerializeAsString())->run, "");
  response.set_run("run-2");
  response.set_conflict_count(300);
  const std::string bytes = response.SerializeAsString();
  EXPECT_EQ(DecodeAnswer(bytes)->run, "run-2");
  EXPECT_EQ(DecodeAnswer(bytes)->conflict_count, 300u);
  response.set_run(std::string(129, 'x'));
  EXPECT_FALSE(DecodeAnswer(response.SerializeAsString()));
}

TEST(WireTest, ChunkVersionIsRead) {
  v1::WriteChunksResponse response;
  EXPECT_EQ(DecodeAnswer(response.SerializeAsString())->chunk_version, 0u);
  response.set_chunk_version(3);
  EXPECT_EQ(DecodeAnswer(response.SerializeAsString())->chunk_version, 3u);
}

TEST(WireTest, UnknownFieldsAreSkipped) {
  // Contains the fields 2, 7, 8 and 9, one of each wire type, around field 1.
  const std::string message(
      "\x11"
      "12345678"
      "\x3a\x02hi\x08\x05\x45"
      "1234"
      "\x48\x01",
      22);
  EXPECT_EQ(DecodeAnswer(message)->committed_count, 5u);
}

TEST(WireTest, MalformedResponsesAreRefused) {
  v1::WriteChunksResponse negative;
  negative.set_committed_chunk_count(-1);
  EXPECT_FALSE(DecodeAnswer(negative.SerializeAsString()));
  EXPECT_FALSE(DecodeAnswer("\x08"));
  EXPECT_FALSE(DecodeAnswer("\x08\xff"));
  EXPECT_FALSE(DecodeAnswer("\x12\x05x"));
  EXPECT_FALSE(DecodeAnswer("\x0b"));
  EXPECT_FALSE(DecodeAnswer(std::string(20, '\xff')));
}

TEST(WireTest, ReasonIsFoundAmongTheDetails) {
  google::rpc::ErrorInfo info;
  info.set_reason("RUN_SEALED");
  info.set_domain("msitd");
  (*info.mutable_metadata())["run"] = "r";
  google::rpc::Status status;
  status.set_code(9);
  status.set_message("sealed");
  status.add_details()->PackFrom(v1::OpenStream());
  status.add_details()->PackFrom(info);
  EXPECT_EQ(DecodeReason(status.SerializeAsString()), "RUN_SEALED");
  EXPECT_EQ(DecodeReason(""), "");
  EXPECT_EQ(DecodeReason("garbage"), "");
}

}  // namespace
}  // namespace msitd::libmsit
