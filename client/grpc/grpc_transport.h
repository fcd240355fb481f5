// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "client/core/transport.h"
#include "client/grpc/write_stream.h"

namespace msitd::client {

// Transport over IngestService.WriteChunks of a daemon that does not share
// memory with this process. See transport.h.
class GrpcTransport final : public Transport {
 public:
  // `endpoint` is a target of gRPC: host:port, dns:///name:port, unix:/path.
  explicit GrpcTransport(std::string endpoint);

  void Open(const StreamIdentity& identity,
            TransportListener* listener) override;
  void Send(std::span<const std::byte> chunk) override;
  void ReportCoverage(const StreamCoverage& coverage) override;
  void Finish() override;
  bool Stop() override;
  void Destroy() override;

 private:
  ~GrpcTransport() = default;

  std::string endpoint_;
  // Made by the first Open, so that the threads of gRPC inherit the signal
  // mask of the sender thread.
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<WriteStream> stream_;
};

}  // namespace msitd::client
