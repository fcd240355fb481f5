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
#include "daemon/peers/peer_options.h"
#include "protos/base/summary.h"
#include "protos/status/mutex.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace msitd::peers {

// A connection to another daemon. Thread-safe.
class PeerChannel {
 public:
  explicit PeerChannel(std::shared_ptr<grpc::Channel> out)
      : channel(std::move(out)) {}

  const std::shared_ptr<grpc::Channel> channel;

  // Prevents the connection from being lent again.
  void NoteFailure() { has_failed_.store(true, std::memory_order_relaxed); }
  // Relaxed, because the flag does not order access to other memory.
  bool has_failed() const {
    return has_failed_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> has_failed_{false};
};

// Connections to other daemons. A connection is lent to one reader of a run at
// a time and then reused, because connecting takes several round trips. An idle
// connection is closed after some time and reopened when it is needed.
//
// Thread-safe.
class PeerChannels {
 public:
  // Maximum number of connections kept per endpoint, and of endpoints.
  static constexpr size_t kOfEndpointMax = 4;
  static constexpr size_t kEndpointsMax = 4096;

  // The channel is lent until the pointer is destroyed.
  struct Lent {
    std::shared_ptr<PeerChannel> channel;
    bool is_new = false;
  };

  explicit PeerChannels(PeerOptions options) : options_(std::move(options)) {}

  // `endpoint` is `unix:PATH` or `host:port`. Does not wait for the connection.
  // If the files in the options have changed, a new connection is made.
  //
  // Errors: FAILED_PRECONDITION if a file cannot be read.
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

}  // namespace msitd::peers
