// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "client/core/delivery/transport.h"
#include "client/grpc/remains.h"
#include "client/grpc/tls_settings.h"
#include "client/grpc/write_stream.h"

namespace msitd::client {

// Transport over IngestService.WriteChunks, for a daemon that does not share
// memory with this process; see transport.h.
class GrpcTransport final : public Transport {
 public:
  // When a silent connection counts as dead.
  struct Keepalive {
    // Time between two pings. Longer than the shortest that a daemon allows.
    std::chrono::milliseconds time{15'000};
    // Time for the answer to a ping, and for bytes to leave the socket.
    std::chrono::milliseconds timeout{10'000};
  };

  // Most streams that were stopped and have not ended. Beyond it no stream is
  // opened.
  static constexpr size_t kStoppedMax = 8;

  // `endpoint` is a target of gRPC: host:port, dns:///name:port, unix:/path.
  explicit GrpcTransport(std::string endpoint);
  GrpcTransport(std::string endpoint, Keepalive keepalive);
  // Encrypts as `tls` says, not as the environment does.
  GrpcTransport(std::string endpoint, TlsSettings tls);

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

  // Frees the stopped streams that gRPC has finished with.
  void FreeStreams();

  const std::string endpoint_;
  const Keepalive keepalive_;
  // Nothing: as the environment says when the first stream is opened.
  const std::optional<TlsSettings> tls_;
  // What may have to outlive the transport: the channel, streams that were
  // stopped, and memory that they borrow. The first Open makes the channel, so
  // that the threads of gRPC inherit the signal mask of the sender thread.
  std::unique_ptr<Remains> remains_;
  // The stream that is open; null if there is none.
  std::unique_ptr<WriteStream> stream_;
};

}  // namespace msitd::client
