// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "client/libmsit/core/delivery/transport.h"
#include "client/libmsit/grpc/remains.h"
#include "client/libmsit/grpc/tls_settings.h"
#include "client/libmsit/grpc/write_stream.h"

namespace msitd::libmsit {

// Implements Transport over IngestService.WriteChunks, for a daemon that does
// not share memory with this process; see transport.h.
class GrpcTransport final : public Transport {
 public:
  // When a silent connection is considered dead.
  struct Keepalive {
    // Time between two pings. Longer than the minimum that a daemon allows.
    std::chrono::milliseconds time{15'000};
    // Time limit for the answer to a ping, and for bytes to leave the socket.
    std::chrono::milliseconds timeout{10'000};
  };

  // Maximum number of stopped streams that have not ended. Beyond it no stream
  // is opened.
  static constexpr size_t kStoppedMax = 8;

  // `endpoint` is a gRPC target: host:port, dns:///name:port, unix:/path.
  explicit GrpcTransport(std::string endpoint);
  GrpcTransport(std::string endpoint, Keepalive keepalive);
  // Uses the encryption in `tls` instead of the environment's.
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

  // Frees the stopped streams that gRPC no longer uses.
  void FreeStreams();

  const std::string endpoint_;
  const Keepalive keepalive_;
  // If empty, the environment is read when the first stream is opened.
  const std::optional<TlsSettings> tls_;
  // State that may have to outlive the transport: the channel, stopped streams,
  // and memory that they borrow. The channel is created by the first Open, so
  // that the threads of gRPC inherit the signal mask of the sender thread.
  std::unique_ptr<Remains> remains_;
  // The open stream; null if there is none.
  std::unique_ptr<WriteStream> stream_;
};

}  // namespace msitd::libmsit
