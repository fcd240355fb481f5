// SPDX-License-Identifier: Apache-2.0
#include "daemon/peers/peer.h"

#include <fmt/format.h>
#include <grpcpp/channel.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

namespace msitd::peers {
namespace {

// Pause between attempts of a call.
constexpr std::chrono::milliseconds kPauseMin{50};
constexpr std::chrono::milliseconds kPauseMax{1000};
// How often `stop` is called during a pause.
constexpr std::chrono::milliseconds kQuestionInterval{50};

// Returns the name of the reason in the details of an msitd error.
std::string ReasonOf(const grpc::Status& status) {
  google::rpc::Status details;
  if (!details.ParseFromString(status.error_details())) return "";
  for (const google::protobuf::Any& detail : details.details()) {
    google::rpc::ErrorInfo info;
    if (detail.UnpackTo(&info) && info.domain() == "msitd") {
      return info.reason();
    }
  }
  return "";
}

bool IsWorthAnotherTry(const absl::Status& error) {
  if (HasReason(error, ErrorReason::kSourceFailed)) return false;
  return absl::IsUnavailable(error) ||
         HasReason(error, ErrorReason::kRequestsExhausted);
}

// Returns whether the error concerns the run, so that the peer counts as
// working.
bool IsOfRun(const absl::Status& error) {
  return HasReason(error, ErrorReason::kRunNotFound) ||
         HasReason(error, ErrorReason::kTensorNotFound) ||
         HasReason(error, ErrorReason::kTensorExpired) ||
         HasReason(error, ErrorReason::kFrameCorrupt) ||
         HasReason(error, ErrorReason::kSegmentMissing);
}

}  // namespace

Peer::Peer(std::string endpoint, std::shared_ptr<PeerChannel> channel,
           std::chrono::milliseconds timeout)
    : endpoint_(std::move(endpoint)),
      timeout_(timeout),
      channel_(std::move(channel)),
      stub_(v1::RunReaderService::NewStub(channel_->channel)) {}

Peer::Hold::Hold(Peer& peer) : peer_(peer) {
  const MutexLock lock(peer_.mu_);
  ++peer_.hold_count_;
}

Peer::Hold::~Hold() {
  const MutexLock lock(peer_.mu_);
  --peer_.hold_count_;
  // Notify while holding the lock, because the peer may be destroyed as soon as
  // the lock is released.
  peer_.released_.NotifyAll();
}

// A call refers to the channel until its context is destroyed, which happens on
// a thread of gRPC. If that were the last reference, gRPC would make the thread
// wait for itself, and abort.
Peer::~Peer() {
  const MutexLock lock(mu_);
  while (hold_count_ > 0) released_.Wait(mu_);
}

absl::Status Peer::Check() {
  const MutexLock lock(mu_);
  return failure_;
}

absl::Status Peer::ToStatus(const grpc::Status& status) const {
  if (status.ok()) return absl::OkStatus();
  auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kDeadlineExceeded) return Late();
  // This daemon does not cancel calls whose result it uses, so CANCELLED means
  // that the peer is shutting down.
  if (code == absl::StatusCode::kCancelled) {
    code = absl::StatusCode::kUnavailable;
  }
  std::string text = status.error_message();
  if (code == absl::StatusCode::kUnimplemented) {
    text = "it is of a version that lends no runs to other daemons";
  }
  return WithReason(
      MakeStatus(code, "peer {}: {}", endpoint_, text),
      code == absl::StatusCode::kUnimplemented ? "" : ReasonOf(status));
}

absl::Status Peer::Late() const {
  return WithReason(MakeStatus(absl::StatusCode::kUnavailable,
                               "peer {}: nothing has come from it for {} ms",
                               endpoint_, timeout_.count()),
                    ErrorReason::kSourceFailed);
}

absl::Status Peer::Fail(const absl::Status& why) {
  GiveUpConnection();
  const MutexLock lock(mu_);
  if (failure_.ok()) failure_ = WithReason(why, ErrorReason::kSourceFailed);
  return failure_;
}

absl::Status Peer::FailByGarbage(std::string_view what) {
  return Fail(MakeStatus(absl::StatusCode::kDataLoss,
                         "peer {}: it sent something wrong: {}", endpoint_,
                         what));
}

absl::Status Retries::Await(const absl::Status& error,
                            storage::StopCheck stop) {
  if (IsOfRun(error)) return error;
  if (!IsWorthAnotherTry(error)) return peer_.Fail(error);
  if (!is_failing_) {
    is_failing_ = true;
    end_ = Clock::now() + peer_.timeout();
    pause_ = kPauseMin;
  }
  const auto until = Clock::now() + pause_;
  if (until > end_) return peer_.Fail(error);
  pause_ = std::min(2 * pause_, kPauseMax);
  while (Clock::now() < until) {
    MSITD_RETURN_IF_ERROR(stop());
    std::this_thread::sleep_for(
        std::min<Clock::duration>(until - Clock::now(), kQuestionInterval));
  }
  return peer_.Check();
}

}  // namespace msitd::peers
