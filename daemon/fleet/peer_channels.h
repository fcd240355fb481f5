// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/fleet/peer_options.h"
#include "protos/base/summary.h"
#include "protos/status/mutex.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace msitd::fleet {

// A connection to another daemon. Thread-safe.
class PeerChannel {
 public:
  explicit PeerChannel(std::shared_ptr<grpc::Channel> out)
      : channel(std::move(out)) {}

  const std::shared_ptr<grpc::Channel> channel;

  // It is not lent again.
  void NoteFailure() { has_failed_.store(true, std::memory_order_relaxed); }
  // Relaxed: no other memory hangs on it.
  bool has_failed() const {
    return has_failed_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> has_failed_{false};
};

// Connections to other daemons. Each is lent to one who reads a run there, and
// then to the next: to connect takes several round trips. One that nobody uses
// is closed after a while, and opened again.
//
// Thread-safe.
class PeerChannels {
 public:
  // What is kept of one endpoint, and of all.
  static constexpr size_t kOfEndpointMax = 4;
  static constexpr size_t kEndpointsMax = 4096;

  // Lent until the pointer goes.
  struct Lent {
    std::shared_ptr<PeerChannel> channel;
    bool is_new = false;
  };

  explicit PeerChannels(PeerOptions options) : options_(std::move(options)) {}

  // `endpoint` is `unix:PATH` or `host:port`. Does not wait for a connection.
  // Once the files of the options have changed, connections are new.
  //
  // Errors: FAILED_PRECONDITION for files that cannot be read.
  absl::StatusOr<Lent> Lend(const std::string& endpoint);

 private:
  struct Kept {
    std::shared_ptr<PeerChannel> channel;
    ContentHash files;
  };

  const PeerOptions options_;
  Mutex mu_;
  std::map<std::string, std::vector<Kept>> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::fleet
