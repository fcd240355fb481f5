// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "daemon/fleet/peer_options.h"
#include "protos/base/summary.h"
#include "protos/status/mutex.h"

namespace msitd::fleet {

// A connection to another daemon. Thread-safe.
class PeerChannel {
 public:
  explicit PeerChannel(std::shared_ptr<grpc::Channel> out)
      : channel(std::move(out)) {}

  const std::shared_ptr<grpc::Channel> channel;

  // The next one who asks for a connection gets a new one.
  void NoteFailure() { has_failed_.store(true, std::memory_order_relaxed); }
  // Relaxed: no other memory hangs on it.
  bool has_failed() const {
    return has_failed_.load(std::memory_order_relaxed);
  }

 private:
  std::atomic<bool> has_failed_{false};
};

// Connections to other daemons, one each, which those who read a run there use
// in turn: to connect takes several round trips. What is idle is closed.
//
// Thread-safe.
class PeerChannels {
 public:
  // Endpoints that are kept, which are those of a configuration.
  static constexpr size_t kChannelsMax = 4096;

  explicit PeerChannels(PeerOptions options) : options_(std::move(options)) {}

  // `endpoint` is `unix:PATH` or `host:port`. Does not wait for a connection.
  // Once the files of the options have changed, connections are new.
  //
  // Errors: FAILED_PRECONDITION for files that cannot be read.
  absl::StatusOr<std::shared_ptr<PeerChannel>> Get(const std::string& endpoint);

 private:
  struct Kept {
    std::shared_ptr<PeerChannel> channel;
    ContentHash files;
  };

  const PeerOptions options_;
  Mutex mu_;
  std::map<std::string, Kept> kept_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::fleet
