// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/peers/peer.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"

namespace msitd::peers {

// Reads the messages of a server-streaming call, a few messages ahead of the
// caller. Destroying the object cancels the call without waiting for it.
// Thread-compatible.
template <typename Request, typename Response>
class PeerStream {
 public:
  using Method = void (v1::RunReaderService::StubInterface::async_interface::*)(
      grpc::ClientContext*, const Request*, grpc::ClientReadReactor<Response>*);

  // At most `window` messages are queued, and one more is being received. The
  // peer must outlive the stream.
  PeerStream(Peer& peer, Method method, const Request& request,
             size_t window = 4)
      : peer_(peer), call_(std::make_shared<Call>(peer, request, window)) {
    call_->Start(peer, method);
  }
  ~PeerStream() { call_->Abandon(); }
  PeerStream(const PeerStream&) = delete;
  PeerStream& operator=(const PeerStream&) = delete;

  // Moves the next message into `out`. Returns false if the peer has ended the
  // stream successfully. Calls `stop` while waiting.
  //
  // Errors: that of `stop`; those of Peer::ToStatus; Peer::Late.
  absl::StatusOr<bool> Next(Response& out, storage::StopCheck stop) {
    const auto late = Clock::now() + peer_.timeout();
    while (true) {
      const auto found =
          call_->Take(out, std::min(late, Clock::now() + kQuestionInterval));
      if (found == Call::Found::kMessage) return true;
      if (found == Call::Found::kEnd) {
        MSITD_RETURN_IF_ERROR(peer_.ToStatus(call_->status()));
        return false;
      }
      MSITD_RETURN_IF_ERROR(stop());
      if (Clock::now() >= late) return peer_.Late();
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::milliseconds kQuestionInterval{50};

  // Keeps itself alive until gRPC no longer uses it.
  class Call final : public grpc::ClientReadReactor<Response>,
                     public std::enable_shared_from_this<Call> {
   public:
    enum class Found { kMessage, kNothing, kEnd };

    Call(Peer& peer, const Request& request, size_t window)
        : hold_(peer), request_(request), window_(window) {}

    void Start(Peer& peer, Method method) {
      self_ = this->shared_from_this();
      (peer.stub().async()->*method)(&context_, &request_, this);
      // Take starts reads as well.
      this->AddHold();
      this->StartRead(&incoming_);
      this->StartCall();
    }

    Found Take(Response& out, Clock::time_point until) {
      bool reads_on = false;
      {
        const MutexLock lock(mu_);
        while (messages_.empty() && !is_done_) {
          if (!changed_.WaitUntil(mu_, until)) break;
        }
        if (messages_.empty()) return is_done_ ? Found::kEnd : Found::kNothing;
        out = std::move(messages_.front());
        messages_.pop_front();
        reads_on = std::exchange(is_paused_, false);
      }
      if (reads_on) this->StartRead(&incoming_);
      return Found::kMessage;
    }

    // Valid after Take has returned kEnd.
    grpc::Status status() {
      const MutexLock lock(mu_);
      return status_;
    }

    void Abandon() {
      bool is_held = false;
      {
        const MutexLock lock(mu_);
        is_abandoned_ = true;
        // If a read is in progress, OnReadDone removes the hold.
        is_held = std::exchange(is_paused_, false);
      }
      context_.TryCancel();
      if (is_held) this->RemoveHold();
    }

   private:
    void OnReadDone(bool ok) override {
      bool reads_on = false;
      bool is_over = false;
      {
        const MutexLock lock(mu_);
        is_over = !ok || is_abandoned_;
        if (!is_over) {
          messages_.push_back(std::move(incoming_));
          incoming_.Clear();
          reads_on = messages_.size() < window_;
          is_paused_ = !reads_on;
        }
        changed_.NotifyAll();
      }
      if (reads_on) this->StartRead(&incoming_);
      if (is_over) this->RemoveHold();
    }

    void OnDone(const grpc::Status& status) override {
      const std::shared_ptr<Call> self = std::move(self_);
      const MutexLock lock(mu_);
      status_ = status;
      is_done_ = true;
      changed_.NotifyAll();
    }

    const Peer::Hold hold_;  // Declared first, so that it is destroyed last.
    std::shared_ptr<Call> self_;  // From Start to OnDone.
    const Request request_;
    const size_t window_;
    grpc::ClientContext context_;
    Response incoming_;  // Of the current read.
    Mutex mu_;
    CondVar changed_;
    std::deque<Response> messages_ ABSL_GUARDED_BY(mu_);
    bool is_paused_ ABSL_GUARDED_BY(mu_) = false;  // Because the queue is full.
    bool is_abandoned_ ABSL_GUARDED_BY(mu_) = false;
    bool is_done_ ABSL_GUARDED_BY(mu_) = false;
    grpc::Status status_ ABSL_GUARDED_BY(mu_);
  };

  Peer& peer_;
  const std::shared_ptr<Call> call_;
};

}  // namespace msitd::peers
