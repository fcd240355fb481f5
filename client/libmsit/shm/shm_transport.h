// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "client/libmsit/core/delivery/transport.h"
#include "client/libmsit/shm/shm_session.h"

namespace msitd::libmsit {

// Implements Transport over memory that is shared with the daemon of this node;
// see transport.h. Chunks are not copied: the daemon reads them where the
// client created them.
class ShmTransport final : public Transport {
 public:
  // `socket_path` is the ingest socket of the daemon.
  explicit ShmTransport(std::string socket_path)
      : socket_path_(std::move(socket_path)) {}

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
  ~ShmTransport() = default;

  void SendCoverage();

  const std::string socket_path_;
  SharedArena arena_;
  // Coverage that could not be sent because the daemon was not ready to read.
  std::optional<StreamCoverage> unsent_coverage_;
  int64_t token_end_ = 0;  // Belongs to unsent_coverage_.
  std::unique_ptr<ShmSession> session_;
};

}  // namespace msitd::libmsit
