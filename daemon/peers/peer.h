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
#include "daemon/peers/peer_channels.h"
#include "msitd/v1/run_reader_service.grpc.pb.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"
#include "storage/face/run_reader.h"

namespace msitd::peers {

// Another daemon, from which a run is read. After the peer has failed once, all
// later calls fail as well, because a comparison that has lost one side must
// end.
//
// Thread-safe. Errors name the endpoint. Errors that make the peer fail have
// the reason SOURCE_FAILED: UNAVAILABLE if the peer cannot be reached or does
// not respond in time, DATA_LOSS if it sends invalid data, UNIMPLEMENTED if its
// version is too old, and any other code with which it may refuse a call.
class Peer {
 public:
  // Keeps the peer alive while gRPC still refers to a call.
  class Hold {
   public:
    explicit Hold(Peer& peer);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Peer& peer_;
  };

  // `timeout` is PeerOptions::timeout.
  Peer(std::string endpoint, std::shared_ptr<PeerChannel> channel,
       std::chrono::milliseconds timeout);
  // Waits for all holds, whose calls have been cancelled. Must not be called on
  // a thread of gRPC.
  ~Peer();
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  const std::string& endpoint() const { return endpoint_; }
  std::chrono::milliseconds timeout() const { return timeout_; }
  v1::RunReaderService::Stub& stub() { return *stub_; }

  // Returns OK until the peer has failed.
  absl::Status Check();

  // Prevents other readers from using this peer's connection.
  void GiveUpConnection() { channel_->NoteFailure(); }

  // Converts the error of a call. The result keeps the reason and begins with
  // the name of the endpoint. The peer does not fail by this call.
  absl::Status ToStatus(const grpc::Status& status) const;

  // Returns UNAVAILABLE: no data was received for timeout().
  absl::Status Late() const;

  // Make the peer fail permanently: because of `why`, the error of a call, or
  // because it sent invalid data. Return the error that Check returns from then
  // on.
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

// Decides whether a failed operation is retried. Thread-compatible.
class Retries {
 public:
  explicit Retries(Peer& peer) : peer_(peer) {}

  // If the operation should be retried, waits and returns OK. Otherwise returns
  // the error to report, which may make the peer fail. Calls `stop` while
  // waiting.
  absl::Status Await(const absl::Status& error, storage::StopCheck stop);

  // Reports that data was received, which restarts the time limit.
  void NoteProgress() { is_failing_ = false; }

 private:
  using Clock = std::chrono::steady_clock;

  Peer& peer_;
  bool is_failing_ = false;
  Clock::time_point end_;  // If it is failing.
  std::chrono::milliseconds pause_{};
};

// A StopCheck for requests that nothing interrupts.
inline absl::Status NeverStop() { return absl::OkStatus(); }

}  // namespace msitd::peers
