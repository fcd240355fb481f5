// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/fleet/peer_channels.h"
#include "msitd/v1/run_reader_service.grpc.pb.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"
#include "storage/face/run_reader.h"

namespace msitd::fleet {

// Another daemon, of which one run is read. Once it has failed, so do all later
// calls: a comparison that has lost a side ends.
//
// Thread-safe. Errors name the endpoint. Those that it has failed by have the
// reason SOURCE_FAILED: UNAVAILABLE if it cannot be reached or is late,
// DATA_LOSS if it sends what no daemon sends, UNIMPLEMENTED if its version is
// too old, and what else it may refuse a call with.
class Peer {
 public:
  // Keeps the peer from going before a call that gRPC still knows.
  class Hold {
   public:
    explicit Hold(Peer& peer);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Peer& peer_;
  };

  // `timeout` is that of PeerOptions.
  Peer(std::string endpoint, std::shared_ptr<PeerChannel> channel,
       std::chrono::milliseconds timeout);
  // Waits for the holds, all calls of which are cancelled. Not for threads of
  // gRPC.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  v1::RunReaderService::Stub& stub() { return *stub_; }

  // OK until it has failed.
  absl::Status Check();

  // Nobody else is to use its connection.
  void GiveUpConnection() { channel_->NoteFailure(); }

  // Returns the error of a call, with its reason, after the name of the
  // endpoint. Has not failed by it yet.
  absl::Status ToStatus(const grpc::Status& status) const;

  // Returns UNAVAILABLE: nothing has come for timeout().
  absl::Status Late() const;

  // It has failed for good: for `why`, an error of a call; for sending
  // something wrong. Return what Check does from then on.
  absl::Status Fail(const absl::Status& why);
  absl::Status FailByGarbage(std::string_view what);

 private:
  const std::string endpoint_;
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<PeerChannel> channel_;
  const std::unique_ptr<v1::RunReaderService::Stub> stub_;
  Mutex mu_;
  CondVar released_;
  size_t hold_count_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mu_);
};

// Decides whether what a call wants is tried again.
// Thread-compatible.
class Retries {
 public:
  explicit Retries(Peer& peer) : peer_(peer) {}

  // Returns OK after a pause if it is worth another try; else the error that is
  // to be returned, which may be the end of the peer. `stop` is asked
  // meanwhile.
  absl::Status Await(const absl::Status& error, storage::StopCheck stop);

  // Something has come, so that the time begins anew.
  void NoteProgress() { is_failing_ = false; }

 private:
  using Clock = std::chrono::steady_clock;

  Peer& peer_;
  bool is_failing_ = false;
  Clock::time_point end_;  // If it is failing.
  std::chrono::milliseconds pause_{};
};

}  // namespace msitd::fleet
