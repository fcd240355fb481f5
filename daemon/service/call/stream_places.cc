// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/stream_places.h"

#include <utility>

#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::service {
namespace {

size_t ShareOf(size_t all, bool is_local) {
  return is_local ? all : all / 4 * 3;
}

}  // namespace

StreamPlaces::StreamPlace::~StreamPlace() {
  if (places_ == nullptr) return;
  MSITD_CHECK(bytes_ == 0);
  if (is_over_) places_->watch_.Came(call_);
  const MutexLock lock(places_->mu_);
  --places_->stream_count_;
}

absl::Status StreamPlaces::StreamPlace::BeginWrite(size_t message_bytes) {
  MSITD_CHECK(bytes_ == 0);
  const size_t bytes = BytesOf(message_bytes);
  {
    const MutexLock lock(places_->mu_);
    if (bytes > 0 && places_->bytes_ > 0) {
      MSITD_ASSIGN_OR_RETURN(byte_share_,
                             places_->byte_shares_.Acquire(caller_, bytes));
    }
    if (bytes > 0 && places_->bytes_ > 0 &&
        places_->bytes_ + bytes > ShareOf(kBytesMax, is_local_)) {
      byte_share_.Release();
      return WithReason(
          MakeStatus(absl::StatusCode::kResourceExhausted,
                     "messages of {} bytes wait for readers to take them",
                     places_->bytes_),
          ErrorReason::kRequestsExhausted);
    }
    places_->bytes_ += bytes;
  }
  bytes_ = bytes;
  places_->watch_.Expect(call_, CallWatch::Clock::now() + kTakeTimeout);
  return absl::OkStatus();
}

void StreamPlaces::StreamPlace::EndWrite() {
  places_->watch_.Came(call_);
  byte_share_.Release();
  const MutexLock lock(places_->mu_);
  places_->bytes_ -= std::exchange(bytes_, 0);
}

void StreamPlaces::StreamPlace::End() {
  is_over_ = true;
  places_->watch_.Expect(call_, CallWatch::Clock::now() + kTakeTimeout);
}

absl::StatusOr<StreamPlaces::StreamPlace> StreamPlaces::Enter(
    grpc_call* call, const access::Caller& caller, bool is_local) {
  MSITD_ASSIGN_OR_RETURN(access::FairShares::Grant share,
                         shares_.Acquire(caller));
  const MutexLock lock(mu_);
  if (stream_count_ >= ShareOf(kStreamsMax, is_local)) {
    return WithReason(
        MakeStatus(absl::StatusCode::kResourceExhausted,
                   "{} streams are read at a time", stream_count_),
        ErrorReason::kRequestsExhausted);
  }
  ++stream_count_;
  return StreamPlace(*this, call, caller, is_local, std::move(share));
}

}  // namespace msitd::service
