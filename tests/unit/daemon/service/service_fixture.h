// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "daemon/server/node_server.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "msitd/v1/capture_service.grpc.pb.h"
#include "msitd/v1/ingest_service.grpc.pb.h"
#include "msitd/v1/node_service.grpc.pb.h"
#include "msitd/v1/run_service.grpc.pb.h"
#include "msitd/v1/tensor_service.grpc.pb.h"
#include "tests/support/either_store.h"
#include "tests/support/fake_store.h"
#include "tests/support/producer.h"
#include "tests/support/temp_dir.h"

namespace msitd::service {

// The details of a failed call, as received by a client.
struct ErrorDetails {
  grpc::StatusCode code = grpc::StatusCode::OK;
  std::string message;
  std::string reason;
  std::string domain;
  std::map<std::string, std::string> metadata;
  bool has_retry_info = false;
};
ErrorDetails DetailsOf(const grpc::Status& status);

// Returns "CODE_NUMBER REASON" for a failed call, and "0 " for a successful
// one.
std::string Outcome(const grpc::Status& status);

// Returns a channel that does not share its connection and allows messages of
// any size.
std::shared_ptr<grpc::Channel> Connect(const std::string& endpoint);

// The client side of one WriteChunks call.
class ChunkStream {
 public:
  ChunkStream(v1::IngestService::Stub& stub, const v1::OpenStream& open);

  // Reads the response to the opening. Returns -1 if the call has ended
  // instead.
  int64_t AwaitOpened() { return AwaitCommit(0); }
  bool Write(const std::string& chunk);
  bool Write(const v1::WriteChunksRequest& request);
  // Waits until `count` chunks are acknowledged. Returns the number of
  // acknowledged chunks, or -1 if the call ends before.
  int64_t AwaitCommit(int64_t count);
  void Cancel() { context_.TryCancel(); }
  // Reads the remaining messages and returns the status. May be called once.
  grpc::Status Finish();

  int64_t committed() const { return committed_; }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<v1::WriteChunksRequest, v1::WriteChunksResponse>>
      call_;
  int64_t committed_ = -1;
};

using testing::StoreKind;
using testing::StoreName;

// A node in this process, with a Unix socket in its own directory.
class ServiceFixture : public ::testing::Test {
 protected:
  explicit ServiceFixture(StoreKind kind = StoreKind::kFake) : kind_(kind) {}
  void SetUp() override { Start(); }
  void TearDown() override { StopNode(); }

  // Creates the node and stubs for the current store.
  void Start();
  void StopNode();
  // Stops and starts the node. A real store is closed and reopened in between.
  void RestartWithStore();

  static v1::OpenStream OpenOf(const testing::Producer& producer,
                               int32_t world_size = 8,
                               v1::IfExists if_exists = v1::IF_EXISTS_FAIL);
  // A second producer of a rank appends to the existing records.
  std::unique_ptr<ChunkStream> OpenChunks(const testing::Producer& producer);
  // Streams chunks in order, half-closes the call, and expects that all chunks
  // are committed.
  void Ingest(testing::Producer& producer,
              const std::vector<std::vector<testing::ProducedTensor>>& chunks);

  const StoreKind kind_;
  testing::TempDir directory_;
  config::DaemonConfig config_;
  testing::FakeStore* fake_ = nullptr;
  std::unique_ptr<storage::Store> store_;
  std::unique_ptr<server::NodeServer> node_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::IngestService::Stub> ingest_;
  std::unique_ptr<v1::RunService::Stub> runs_;
  std::unique_ptr<v1::TensorService::Stub> tensors_;
  std::unique_ptr<v1::CaptureService::Stub> captures_;
  std::unique_ptr<v1::NodeService::Stub> nodes_;
};

// The same fixture for both kinds of store.
class EitherStoreFixture : public ServiceFixture,
                           public ::testing::WithParamInterface<StoreKind> {
 protected:
  EitherStoreFixture() : ServiceFixture(GetParam()) {}
};

// Calls a unary method of a stub and returns its status.
template <typename Stub, typename Request, typename Response>
grpc::Status Invoke(Stub& stub,
                    grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                 const Request&, Response*),
                    const Request& request, Response& response) {
  grpc::ClientContext context;
  return (stub.*method)(&context, request, &response);
}

}  // namespace msitd::service
