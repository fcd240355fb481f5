// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/grpc/grpc_transport.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <fstream>

#include "client/libmsit/core/client.h"
#include "tests/unit/client/libmsit/core/client_fixture.h"
#include "tests/unit/client/libmsit/grpc/fake_ingest_service.h"
#include "tests/unit/client/libmsit/grpc/tcp_relay.h"

namespace msitd::libmsit {
namespace {

// Returns the private writable memory of this process.
size_t MappedBytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    size_t kilobytes = 0;
    if (word == "VmData:" && status >> kilobytes) return kilobytes << 10;
  }
  return 0;
}

class GrpcTransportTest : public ClientTest {
 protected:
  GrpcTransportTest() { StartServer(); }
  ~GrpcTransportTest() override {
    client_.reset();
    if (server_) server_->Shutdown(std::chrono::system_clock::now());
  }

  void StartServer() {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(-1);
    builder.AddChannelArgument(
        GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1);
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port_),
                             grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
  }

  Status OpenGrpc() { return OpenGrpc(port_, GrpcTransport::Keepalive()); }
  Status OpenGrpc(int port, const GrpcTransport::Keepalive& keepalive) {
    return Client::Open(
        options_,
        std::unique_ptr<Transport, TransportDestroyer>(
            new GrpcTransport("127.0.0.1:" + std::to_string(port), keepalive)),
        &client_);
  }

  std::vector<Arrived> ServedRecords() {
    return ReadChunks(service_.chunks(),
                      static_cast<uint64_t>(service_.open().stream_id()));
  }

  FakeIngestService service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(GrpcTransportTest, ChunksArriveByteForByte) {
  options_.user_agent = "test/1";
  ASSERT_TRUE(OpenGrpc().ok());
  ASSERT_TRUE(Record("small", 10, 1).ok());
  ASSERT_TRUE(Record("large", 3 * kPartBytes + 17, 2).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  ASSERT_TRUE(client_->Close(kLong).ok());
  EXPECT_EQ(service_.open().run(), "run");
  EXPECT_EQ(service_.open().rank(), 1);
  EXPECT_EQ(service_.open().world_size(), 2);
  EXPECT_EQ(service_.open().user_agent(), "test/1");
  EXPECT_FALSE(service_.was_cancelled()) << "closed in good order";
  const auto arrived = ServedRecords();
  ASSERT_EQ(arrived.size(), 5u);
  EXPECT_EQ(arrived[0].bytes, std::vector<std::byte>(10, std::byte{1}));
  EXPECT_EQ(arrived[1].bytes, std::vector<std::byte>(kPartBytes, std::byte{2}));
  EXPECT_EQ(arrived[4].bytes, std::vector<std::byte>(17, std::byte{2}));
  EXPECT_EQ(client_->counters().acknowledged_count, 2u);
}

TEST_F(GrpcTransportTest, ManyChunksThroughFewSlots) {
  options_.buffer_bytes = 2 * kSlotBytes;
  ASSERT_TRUE(OpenGrpc().ok());
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Record("op", kPartBytes, i).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = ServedRecords();
  ASSERT_EQ(arrived.size(), 20u);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(arrived[i].bytes,
              std::vector<std::byte>(kPartBytes, static_cast<std::byte>(i)));
  }
}

TEST_F(GrpcTransportTest, ReconnectsAndResendsAfterUnavailable) {
  ASSERT_TRUE(OpenGrpc().ok());
  bool has_failed = false;
  service_.OnChunk([&has_failed](size_t count) {
    if (count != 2 || has_failed) return grpc::Status::OK;
    has_failed = true;
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "later");
  });
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(Record("op", kPartBytes, i).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(ServedRecords().size(), 5u);
  EXPECT_EQ(client_->counters().reconnect_count, 1u);
  EXPECT_EQ(client_->counters().dropped_count, 0u);
}

TEST_F(GrpcTransportTest, ReconnectsToADaemonThatWasRestarted) {
  ASSERT_TRUE(OpenGrpc().ok());
  ASSERT_TRUE(Record("before", 10).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  server_->Shutdown(std::chrono::system_clock::now());
  server_.reset();
  ASSERT_TRUE(Record("between", 10).ok());
  StartServer();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_EQ(ServedRecords().size(), 2u);
}

TEST_F(GrpcTransportTest, RefusedChunkIsDroppedAndTheStreamGoesOn) {
  ASSERT_TRUE(OpenGrpc().ok());
  bool has_refused = false;
  service_.OnChunk([&has_refused](size_t count) {
    if (count != 1 || has_refused) return grpc::Status::OK;
    has_refused = true;
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "bad chunk");
  });
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(Record("op" + std::to_string(i), kPartBytes).ok());
  }
  ASSERT_TRUE(client_->Flush(kLong).ok());
  const auto arrived = ServedRecords();
  ASSERT_EQ(arrived.size(), 3u);
  EXPECT_EQ(arrived[0].key.op, "op0");
  EXPECT_EQ(arrived[1].key.op, "op2");
  EXPECT_EQ(client_->counters().refused_chunk_count, 1u);
  EXPECT_EQ(client_->stream_error(), "INVALID_ARGUMENT: bad chunk");
  ASSERT_TRUE(client_->Close(kLong).ok());
  EXPECT_EQ(service_.coverage().dropped_count(), 1);
  EXPECT_EQ(service_.coverage().seen_count(), 4);
}

TEST_F(GrpcTransportTest, SealedRunEndsTheStreamForGood) {
  service_.RefuseOpening(
      {grpc::StatusCode::FAILED_PRECONDITION, "run `run` is sealed"});
  const Status status = OpenGrpc();
  EXPECT_EQ(status.code, MSIT_ERROR_REFUSED);
  EXPECT_EQ(status.message, "FAILED_PRECONDITION: run `run` is sealed");
  EXPECT_EQ(service_.stream_count(), 1);
}

TEST_F(GrpcTransportTest, BusyRankIsTriedAgain) {
  service_.RefuseOpening(
      {grpc::StatusCode::ALREADY_EXISTS, "the rank streams already"});
  options_.open_timeout = seconds(0);
  ASSERT_TRUE(OpenGrpc().ok());
  while (service_.stream_count() < 2) std::this_thread::yield();
}

TEST_F(GrpcTransportTest, NobodyListensIsUnavailable) {
  server_->Shutdown();
  server_.reset();
  options_.open_timeout = milliseconds(50);
  EXPECT_EQ(OpenGrpc().code, MSIT_ERROR_UNAVAILABLE);
}

class HungConnectionTest : public GrpcTransportTest {
 protected:
  // More parts than the sockets in between can buffer.
  static constexpr size_t kPartCount = 12;

  // Makes the client write more than the socket can buffer.
  void Hang() {
    options_.buffer_bytes = 2 * kPartCount * kSlotBytes;
    ASSERT_TRUE(OpenGrpc(relay_->port(), GrpcTransport::Keepalive()).ok());
    // gRPC increases the amount that it sends at a time after it has sent a
    // lot.
    RecordAll();
    ASSERT_TRUE(client_->Flush(kLong).ok());
    relay_->Freeze();
    RecordAll();
    EXPECT_EQ(client_->Flush(milliseconds(300)).code, MSIT_ERROR_TIMEOUT);
  }

  void RecordAll() {
    for (size_t i = 0; i < kPartCount; ++i) {
      ASSERT_TRUE(Record("op", kPartBytes).ok());
    }
  }

  std::unique_ptr<TcpRelay> relay_ = std::make_unique<TcpRelay>(port_);
};

TEST_F(HungConnectionTest, CloseDoesNotWaitForIt) {
  Hang();
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(client_->Close(milliseconds(100)).code, MSIT_ERROR_TIMEOUT);
  client_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, seconds(2));
}

TEST_F(HungConnectionTest, WhatIsLeftOfItGoesWhenItEnds) {
  Hang();
  const size_t with_client = MappedBytes();
  client_.reset();
  const size_t freed_at_most = with_client - kPartCount * kSlotBytes;
  EXPECT_GT(MappedBytes(), freed_at_most) << "gRPC reads the chunks";
  relay_.reset();
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (MappedBytes() > freed_at_most &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_LE(MappedBytes(), freed_at_most);
}

TEST_F(GrpcTransportTest, HostThatVanishedIsNoticedWithoutAWord) {
  TcpRelay relay(port_);
  ASSERT_TRUE(
      OpenGrpc(relay.port(), {milliseconds(100), milliseconds(500)}).ok());
  ASSERT_TRUE(Record("before", 10).ok());
  ASSERT_TRUE(client_->Flush(kLong).ok());
  relay.Freeze();
  const auto deadline = std::chrono::steady_clock::now() + kLong;
  while (client_->stream_error().empty() &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::yield();
  }
  EXPECT_NE(client_->stream_error(), "");
  // After the host is back, nothing is lost.
  ASSERT_TRUE(Record("between", 10).ok());
  relay.Thaw();
  ASSERT_TRUE(client_->Flush(kLong).ok());
  EXPECT_GE(relay.connection_count(), 2);
  EXPECT_EQ(ServedRecords().size(), 2u);
}

}  // namespace
}  // namespace msitd::libmsit
