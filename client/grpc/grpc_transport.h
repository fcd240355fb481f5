// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "client/core/delivery/transport.h"
#include "client/grpc/remains.h"
#include "client/grpc/write_stream.h"

namespace msitd::client {

// Transport over IngestService.WriteChunks of a daemon that does not share
// memory with this process. See transport.h.
class GrpcTransport final : public Transport {
 public:
  // When a connection over which nothing comes is taken for dead.
  struct Keepalive {
    // Between two pings, longer than the shortest time that a daemon allows.
    std::chrono::milliseconds time{15'000};
    // For their answer, and for bytes to leave the socket.
    std::chrono::milliseconds timeout{10'000};
  };

  // Streams that were stopped and have not ended: with more, none is opened.
  static constexpr size_t kStoppedMax = 8;

  // `endpoint` is a target of gRPC: host:port, dns:///name:port, unix:/path.
  explicit GrpcTransport(std::string endpoint);
  GrpcTransport(std::string endpoint, Keepalive keepalive);

  void Open(const StreamIdentity& identity,
            TransportListener* listener) override;
  void Send(std::span<const std::byte> chunk) override;
  void ReportCoverage(const StreamCoverage& coverage,
                      int64_t token_end) override;
  void Finish() override;
  bool Stop() override;
  void KeepMemory(std::span<std::byte> mapping) override;
  void Destroy() override;

 private:
  ~GrpcTransport() = default;

  // Frees the streams that gRPC is done with.
  void FreeStreams();

  const std::string endpoint_;
  const Keepalive keepalive_;
  // What is to be freed behind the transport: the channel, which the first Open
  // makes so that the threads of gRPC inherit the signal mask of the sender
  // thread; streams that were stopped; memory that they borrow.
  std::unique_ptr<Remains> remains_;
  // Open; null if there is none.
  std::unique_ptr<WriteStream> stream_;
};

}  // namespace msitd::client
