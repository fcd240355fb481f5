// SPDX-License-Identifier: Apache-2.0
// Packets sent to the ingest socket of a live server, which uses a store in
// memory.
//
// An input is a list of packets: the size (2 bytes, of which 10 bits are used)
// and the bytes.
#include <poll.h>
#include <sys/socket.h>

#include <memory>
#include <thread>

#include "daemon/ingest/ingest_pipeline.h"
#include "daemon/shm/ingest_server.h"
#include "protos/shm/ring_abi.h"
#include "protos/shm/session_socket.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/support/fake_store.h"
#include "tests/support/temp_dir.h"

namespace msitd::shm {
namespace {

constexpr uint16_t kSizeMask = 0x3ff;
constexpr int kPacketsMax = 64;
constexpr int kPatienceMs = 20'000;
// Number of inputs after which the store, which accumulates runs, is replaced
// by an empty one.
constexpr int kInputsPerServer = 256;

class Server {
 public:
  Server()
      : pipeline_(std::make_unique<ingest::IngestPipeline>(
            store_, store_, ingest::IngestOptions{})) {
    IngestServerOptions options;
    options.socket_path = path();
    options.arena_bytes_max = kArenaBytesMin;
    auto server = IngestServer::Start(options, *pipeline_,
                                      [this](absl::AnyInvocable<void()> task) {
                                        tasks_.emplace_back(std::move(task));
                                        return absl::OkStatus();
                                      });
    MSITD_CHECK(server.ok());
    server_ = *std::move(server);
  }

  ~Server() {
    MSITD_CHECK(
        pipeline_->Drain(std::chrono::steady_clock::time_point::max()).ok());
    server_->Stop();
    server_.reset();
    for (std::thread& task : tasks_) task.join();
  }

  std::string path() const { return directory_ / "ingest.sock"; }

 private:
  testing::TempDir directory_ = testing::TempDir::InMemory();
  testing::FakeStore store_;
  std::unique_ptr<ingest::IngestPipeline> pipeline_;
  std::unique_ptr<IngestServer> server_;
  // Filled by the only thread of the server, and read after that thread has
  // ended.
  std::vector<std::thread> tasks_;
};

// Checks that a producer can parse the message.
void Use(const Packet& packet) {
  SessionWelcome welcome;
  SessionPolicy policy;
  SessionCommitted committed;
  SessionEnd end;
  if (packet.As(policy)) {
    MSITD_CHECK(packet.fd_count == 1);
    return;
  }
  if (packet.As(welcome)) {
    MSITD_CHECK(packet.fd_count == 2 || packet.fd_count == 3);
    return;
  }
  MSITD_CHECK(packet.fd_count == 0);
  if (packet.As(end)) {
    MSITD_CHECK(end.reason_bytes <= sizeof(end.reason));
    MSITD_CHECK(end.message_bytes <= sizeof(end.message));
    return;
  }
  MSITD_CHECK(packet.As(committed));
}

// Reads until the daemon closes the connection, which it must do after the
// producer has left.
void AwaitClose(int socket) {
  Packet packet;
  while (true) {
    switch (ReceivePacket(socket, packet)) {
      case ReceiveResult::kPacket:
        Use(packet);
        break;
      case ReceiveResult::kClosed:
        return;
      case ReceiveResult::kNothing:
        pollfd event{socket, POLLIN, 0};
        MSITD_CHECK(::poll(&event, 1, kPatienceMs) == 1);
    }
  }
}

void Play(const std::string& path, fuzz::Input input) {
  const UniqueFd socket = ConnectSession(path);
  MSITD_CHECK(socket.valid());
  for (int i = 0; i < kPacketsMax && !input.empty(); ++i) {
    const size_t size = input.Get<uint16_t>() & kSizeMask;
    const std::string_view bytes = input.Take(size);
    // Empty packets cannot be distinguished from the end of the connection.
    if (bytes.empty()) continue;
    if (!SendPacket(socket.get(), std::as_bytes(std::span(bytes)))) break;
  }
  ::shutdown(socket.get(), SHUT_WR);
  AwaitClose(socket.get());
}

template <typename Message>
std::string PacketOf(const Message& message) {
  return fuzz::BytesOf(uint16_t{sizeof(message)}) + fuzz::BytesOf(message);
}

SessionHello Hello() {
  SessionHello hello;
  hello.rank = 1;
  hello.world_size = 4;
  hello.stream_id = 5;
  hello.arena_bytes = kArenaBytesMin;
  hello.run_bytes = 3;
  hello.user_agent_bytes = 4;
  std::memcpy(hello.run, "run", 3);
  std::memcpy(hello.user_agent, "fuzz", 4);
  return hello;
}

std::vector<std::string> SeedList() {
  SessionCoverage report;
  report.coverage.dropped_count = 3;
  report.coverage.degraded_count = 1;
  const std::string hello = PacketOf(Hello());
  SessionHello anew = Hello();
  anew.if_exists = IfExists::kNew;
  anew.job_bytes = 3;
  std::memcpy(anew.job, "job", 3);
  const std::string end = PacketOf(SessionFinish());
  return {hello,
          hello + end,
          PacketOf(anew) + end,
          hello + PacketOf(report) + end,
          end,
          hello + hello,
          PacketOf(SessionWelcome()) + PacketOf(SessionEnd()),
          hello + PacketOf(SessionCommitted()),
          hello + PacketOf(SessionPolicy())};
}

}  // namespace
}  // namespace msitd::shm

namespace msitd::fuzz {

std::vector<std::string> Seeds() { return shm::SeedList(); }

}  // namespace msitd::fuzz

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using msitd::shm::Server;
  static std::unique_ptr<Server> server;
  static int inputs = 0;
  if (inputs++ % msitd::shm::kInputsPerServer == 0) {
    server.reset();
    server = std::make_unique<Server>();
  }
  msitd::shm::Play(server->path(), msitd::fuzz::Input(data, size));
  return 0;
}
