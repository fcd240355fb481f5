// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/daemon/server/msitd_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "grpcpp/generic/generic_stub.h"
#include "msitd/v1/tensor_service.grpc.pb.h"
#include "protos/base/resource_name.h"
#include "tests/support/producer.h"
#include "tests/unit/daemon/service/service_fixture.h"

namespace msitd::server {
namespace {

using service::ChunkStream;
using ::testing::HasSubstr;
using testing::Producer;
using ::testing::StartsWith;

class MsitdProcessTest : public ::testing::Test {
 protected:
  void Start(const std::vector<std::string>& flags = {}) {
    process_ = std::make_unique<MsitdProcess>(directory_, flags);
    ASSERT_TRUE(process_->AwaitNotice("READY=1")) << process_->Log();
    channel_ = service::Connect("unix:" + (directory_ / "run/msitd.sock"));
    ingest_ = v1::IngestService::NewStub(channel_);
    tensors_ = v1::TensorService::NewStub(channel_);
  }

  std::unique_ptr<ChunkStream> Open(const Producer& producer) {
    v1::OpenStream open;
    open.set_run(producer.run());
    open.set_rank(producer.rank());
    open.set_world_size(1);
    open.set_stream_id(static_cast<int64_t>(producer.stream_id()));
    return std::make_unique<ChunkStream>(*ingest_, open);
  }

  // Reads the value of the tensor in chunk `i`, as created by Producer::Chunk.
  float ReadValue(const Producer& producer, int64_t i) {
    v1::ReadTensorRequest request;
    request.set_name(FormatTensorName(
        producer.KeyOf({.op = "op", .token = i, .values = {}})));
    grpc::ClientContext context;
    const auto reader = tensors_->ReadTensor(&context, request);
    v1::ReadTensorResponse response;
    float value = -1;
    while (reader->Read(&response)) {
      if (response.data().size() == sizeof(value)) {
        std::memcpy(&value, response.data().data(), sizeof(value));
      }
    }
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << i << ": " << status.error_message();
    return value;
  }

  // Calls a method with serialized messages.
  std::string CallRaw(grpc::Channel& channel, const std::string& method,
                      const std::string& request) {
    grpc::GenericStub stub(
        std::shared_ptr<grpc::Channel>(&channel, [](grpc::Channel*) {}));
    grpc::Slice slice(request);
    grpc::ByteBuffer in(&slice, 1);
    grpc::ByteBuffer out;
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const auto call = stub.PrepareCall(&context, method, &queue);
    void* tag = nullptr;
    bool ok = false;
    call->StartCall(&tag);
    queue.Next(&tag, &ok);
    call->Write(in, nullptr);
    queue.Next(&tag, &ok);
    call->Read(&out, nullptr);
    queue.Next(&tag, &ok);
    EXPECT_TRUE(ok) << method;
    context.TryCancel();
    std::vector<grpc::Slice> slices;
    std::string text;
    if (ok && out.Dump(&slices).ok()) {
      for (const grpc::Slice& s : slices) {
        text.append(reinterpret_cast<const char*>(s.begin()), s.size());
      }
    }
    grpc::Status status;
    call->Finish(&status, nullptr);
    queue.Next(&tag, &ok);
    return text;
  }

  testing::TempDir directory_;
  std::unique_ptr<MsitdProcess> process_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IngestService::Stub> ingest_;
  std::unique_ptr<v1::TensorService::Stub> tensors_;
};

TEST_F(MsitdProcessTest, SaysWhereItListensAndStopsOnSigterm) {
  Start();
  std::ifstream file(directory_ / "run/endpoint");
  std::string unix_endpoint;
  std::string tcp_endpoint;
  std::getline(file, unix_endpoint);
  std::getline(file, tcp_endpoint);
  EXPECT_EQ(unix_endpoint, "unix:" + (directory_ / "run/msitd.sock"));
  EXPECT_THAT(tcp_endpoint, StartsWith("127.0.0.1:"));
  struct stat info {};
  ASSERT_EQ(::stat((directory_ / "run/msitd.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0660u);

  const auto tcp = service::Connect(tcp_endpoint);
  // SERVING is the value 1 in the only field of the response.
  EXPECT_EQ(CallRaw(*tcp, "/grpc.health.v1.Health/Check", ""), "\x08\x01");
  for (const char* name : {"ComparisonService", "IngestService", "NodeService",
                           "RunService", "TensorService"}) {
    // The name is the only field of the request.
    const std::string full_name = std::string("msitd.v1.") + name;
    EXPECT_EQ(
        CallRaw(*tcp, "/grpc.health.v1.Health/Check",
                '\x0a' + std::string(1, static_cast<char>(full_name.size())) +
                    full_name),
        "\x08\x01")
        << name;
  }
  // Field 7 of the request requests all services.
  const std::string services = CallRaw(
      *tcp, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
      "\x3a\x01*");
  for (const char* name : {"ComparisonService", "IngestService", "NodeService",
                           "RunService", "TensorService"}) {
    EXPECT_THAT(services, HasSubstr(std::string("msitd.v1.") + name));
  }

  process_->Signal(SIGTERM);
  EXPECT_TRUE(process_->AwaitNotice("STOPPING=1"));
  EXPECT_EQ(process_->Wait(), 0) << process_->Log();
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run/endpoint"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "run/msitd.sock"));
}

TEST_F(MsitdProcessTest, CallsThatNeverEndDoNotHoldAStop) {
  Start();
  // The call is opened and then idle: the health service sends a state only
  // when it changes.
  grpc::GenericStub stub(channel_);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const auto watch =
      stub.PrepareCall(&context, "/grpc.health.v1.Health/Watch", &queue);
  void* tag = nullptr;
  bool ok = false;
  watch->StartCall(nullptr);
  queue.Next(&tag, &ok);
  watch->Write(grpc::ByteBuffer(nullptr, 0), nullptr);
  queue.Next(&tag, &ok);
  grpc::ByteBuffer state;
  watch->Read(&state, nullptr);
  queue.Next(&tag, &ok);
  ASSERT_TRUE(ok);

  const auto start = std::chrono::steady_clock::now();
  process_->Signal(SIGTERM);
  EXPECT_EQ(process_->Wait(), 0) << process_->Log();
  // Calls with work on this server get a grace period of 2 s.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  // The status follows the last state.
  while (ok) {
    watch->Read(&state, nullptr);
    queue.Next(&tag, &ok);
  }
  grpc::Status status;
  watch->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(MsitdProcessTest, SigtermLosesNothingThatWasAcknowledged) {
  Start();
  Producer producer("run", 0, 7);
  auto stream = Open(producer);
  ASSERT_EQ(stream->AwaitOpened(), 0);
  for (uint64_t i = 0; i < 200; ++i) stream->Write(producer.Chunk(i));
  ASSERT_GE(stream->AwaitCommit(1), 1);
  process_->Signal(SIGTERM);
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(process_->Wait(), 0) << process_->Log();
  const int64_t acknowledged = stream->committed();
  if (acknowledged < 200) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  }

  Start();
  EXPECT_THAT(process_->Log(), HasSubstr("recovered_frames=0"));
  stream = Open(producer);
  EXPECT_EQ(stream->AwaitOpened(), acknowledged);
  EXPECT_TRUE(stream->Finish().ok());
  for (int64_t i = 0; i < acknowledged; ++i) {
    EXPECT_EQ(ReadValue(producer, i), static_cast<float>(i));
  }
}

TEST_F(MsitdProcessTest, KillLosesNothingThatWasAcknowledged) {
  Producer producer("run", 0, 7);
  int64_t next = 0;
  for (int round = 0; round < 4; ++round) {
    Start();
    const auto stream = Open(producer);
    ASSERT_GE(stream->AwaitOpened(), next) << process_->Log();
    next = stream->committed();
    for (int64_t i = next; i < next + 60; ++i) {
      stream->Write(producer.Chunk(static_cast<uint64_t>(i)));
    }
    ASSERT_GE(stream->AwaitCommit(next + 5 + 11 * round), next);
    process_->Signal(SIGKILL);
    EXPECT_EQ(process_->Wait(), -SIGKILL);
    EXPECT_FALSE(stream->Finish().ok());
    next = stream->committed();
  }
  Start();
  for (int64_t i = 0; i < next; ++i) {
    EXPECT_EQ(ReadValue(producer, i), static_cast<float>(i));
  }
}

TEST_F(MsitdProcessTest, SecondDaemonOnTheSamePlaceGivesUp) {
  Start();
  MsitdProcess second(directory_, {"--socket-dir=" + (directory_ / "run2")});
  EXPECT_EQ(second.Wait(), 1);
  MsitdProcess third(directory_, {"--data-dir=" + (directory_ / "data3")});
  EXPECT_EQ(third.Wait(), 1);
  EXPECT_THAT(third.Log(), HasSubstr("another process listens"));
  Producer producer("run", 0, 7);
  EXPECT_EQ(Open(producer)->AwaitOpened(), 0);
}

TEST_F(MsitdProcessTest, TakenPortIsAnError) {
  Start();
  std::ifstream file(directory_ / "run/endpoint");
  std::string endpoint;
  std::getline(file, endpoint);
  std::getline(file, endpoint);
  testing::TempDir elsewhere;
  MsitdProcess second(elsewhere, {"--listen=" + endpoint});
  EXPECT_EQ(second.Wait(), 1);
  EXPECT_THAT(second.Log(), HasSubstr("cannot listen on " + endpoint));
}

TEST_F(MsitdProcessTest, TellsTheWatchdogThatItLives) {
  Start();
  EXPECT_TRUE(process_->AwaitNotice("WATCHDOG=1"));
  EXPECT_TRUE(process_->AwaitNotice("WATCHDOG=1"));
}

TEST_F(MsitdProcessTest, BadUsageExitsWithTwo) {
  MsitdProcess process(directory_, {"--max-streams=none"});
  EXPECT_EQ(process.Wait(), 2);
  EXPECT_THAT(process.Log(), HasSubstr("--max-streams"));
}

}  // namespace
}  // namespace msitd::server
