// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/daemon/service/service_fixture.h"

#include <fmt/format.h>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/credentials.h"
#include "protos/status/status.h"
#include "storage/env/env.h"

namespace msitd::service {

std::shared_ptr<grpc::Channel> Connect(const std::string& endpoint) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  // With the shared pool, gRPC would reuse the connection to the previous
  // daemon, and detect only during a call that it is closed.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(endpoint, grpc::InsecureChannelCredentials(),
                                   arguments);
}

ErrorDetails DetailsOf(const grpc::Status& status) {
  ErrorDetails out;
  out.code = status.error_code();
  out.message = status.error_message();
  google::rpc::Status details;
  EXPECT_TRUE(details.ParseFromString(status.error_details()));
  for (const google::protobuf::Any& any : details.details()) {
    google::rpc::ErrorInfo info;
    google::rpc::RetryInfo retry;
    if (any.UnpackTo(&info)) {
      EXPECT_EQ(out.reason, "") << "more than one ErrorInfo";
      out.reason = info.reason();
      out.domain = info.domain();
      out.metadata.insert(info.metadata().begin(), info.metadata().end());
    } else if (any.UnpackTo(&retry)) {
      out.has_retry_info = true;
    }
  }
  return out;
}

std::string Outcome(const grpc::Status& status) {
  return fmt::format("{} {}", static_cast<int>(status.error_code()),
                     DetailsOf(status).reason);
}

ChunkStream::ChunkStream(v1::IngestService::Stub& stub,
                         const v1::OpenStream& open)
    : call_(stub.WriteChunks(&context_)) {
  v1::WriteChunksRequest request;
  *request.mutable_open() = open;
  call_->Write(request);
}

bool ChunkStream::Write(const std::string& chunk) {
  v1::WriteChunksRequest request;
  request.set_chunk(chunk);
  return call_->Write(request);
}

bool ChunkStream::Write(const v1::WriteChunksRequest& request) {
  return call_->Write(request);
}

int64_t ChunkStream::AwaitCommit(int64_t count) {
  v1::WriteChunksResponse response;
  while (committed_ < count) {
    if (!call_->Read(&response)) return -1;
    EXPECT_GE(response.committed_chunk_count(), committed_);
    committed_ = response.committed_chunk_count();
  }
  return committed_;
}

grpc::Status ChunkStream::Finish() {
  call_->WritesDone();
  v1::WriteChunksResponse response;
  while (call_->Read(&response)) committed_ = response.committed_chunk_count();
  return call_->Finish();
}

void ServiceFixture::Start() {
  if (kind_ == StoreKind::kFake && store_ == nullptr) {
    auto fake = std::make_unique<testing::FakeStore>();
    fake_ = fake.get();
    store_ = std::move(fake);
  } else if (store_ == nullptr) {
    storage::StoreOptions options;
    options.directory = directory_ / "data";
    auto store = storage::Store::Open(options, storage::Env::Posix());
    ASSERT_TRUE(store.ok()) << Message(store.status());
    store_ = *std::move(store);
  }
  config_.socket_dir = directory_ / "run";
  config_.listen.clear();
  auto node = server::NodeServer::Start(config_, *store_);
  ASSERT_TRUE(node.ok()) << Message(node.status());
  node_ = *std::move(node);
  channel_ = Connect(node_->endpoints()[0]);
  ingest_ = v1::IngestService::NewStub(channel_);
  runs_ = v1::RunService::NewStub(channel_);
  tensors_ = v1::TensorService::NewStub(channel_);
  captures_ = v1::CaptureService::NewStub(channel_);
  nodes_ = v1::NodeService::NewStub(channel_);
}

void ServiceFixture::StopNode() {
  if (node_ == nullptr) return;
  EXPECT_TRUE(node_->Stop(std::chrono::steady_clock::time_point::max()).ok());
  node_.reset();
}

void ServiceFixture::RestartWithStore() {
  StopNode();
  if (kind_ == StoreKind::kReal) {
    EXPECT_TRUE(store_->Close().ok());
    store_.reset();
  }
  Start();
}

v1::OpenStream ServiceFixture::OpenOf(const testing::Producer& producer,
                                      int32_t world_size,
                                      v1::IfExists if_exists) {
  v1::OpenStream open;
  open.set_run(producer.run());
  open.set_rank(producer.rank());
  open.set_world_size(world_size);
  open.set_stream_id(static_cast<int64_t>(producer.stream_id()));
  open.set_user_agent("test/1");
  open.set_if_exists(if_exists);
  return open;
}

std::unique_ptr<ChunkStream> ServiceFixture::OpenChunks(
    const testing::Producer& producer) {
  return std::make_unique<ChunkStream>(
      *ingest_, OpenOf(producer, 8, v1::IF_EXISTS_APPEND));
}

void ServiceFixture::Ingest(
    testing::Producer& producer,
    const std::vector<std::vector<testing::ProducedTensor>>& chunks) {
  const auto stream = OpenChunks(producer);
  EXPECT_EQ(stream->AwaitOpened(), 0);
  for (size_t i = 0; i < chunks.size(); ++i) {
    EXPECT_TRUE(stream->Write(producer.Chunk(i, chunks[i])));
  }
  const grpc::Status status = stream->Finish();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(stream->committed(), static_cast<int64_t>(chunks.size()));
}

}  // namespace msitd::service
