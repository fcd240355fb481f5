// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpc/grpc.h>

#include <chrono>
#include <cstddef>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/caller.h"
#include "daemon/access/fair_shares.h"
#include "daemon/service/call/call_watch.h"
#include "protos/base/error_reason.h"
#include "protos/status/mutex.h"

namespace msitd::service {

// Bounds what streams take together whose callers do not take their messages.
// One that is refused, or ended, may be asked for again at once.
//
// Thread-safe.
class StreamPlaces {
 public:
  // Streams at a time.
  static constexpr size_t kStreamsMax = 256;
  // Memory of the streams that have a message on its way.
  static constexpr size_t kBytesMax = size_t{192} << 20;
  // Of one: its message, as made and as sent, and what it reads from. Messages
  // that the other end takes in whether or not it reads are not counted.
  static constexpr size_t BytesOf(size_t message_bytes) {
    return message_bytes <= kSmallBytes ? 0
                                        : 2 * message_bytes + (size_t{1} << 20);
  }
  static constexpr size_t kSmallBytes = size_t{32} << 10;
  // How long a message may be on its way. A reader that pauses for longer asks
  // for the rest again.
  static constexpr std::chrono::seconds kTakeTimeout{5};

  // The place of one stream, which gives it back. Not thread-safe.
  class Place {
   public:
    Place(Place&& other) noexcept
        : places_(std::exchange(other.places_, nullptr)),
          call_(other.call_),
          caller_(std::move(other.caller_)),
          is_local_(other.is_local_),
          bytes_(std::exchange(other.bytes_, 0)),
          is_over_(other.is_over_),
          share_(std::move(other.share_)),
          byte_share_(std::move(other.byte_share_)) {}
    Place& operator=(Place&&) = delete;
    // No message is on its way.
    ~Place();

    // A message of so many bytes goes on its way, and is to be taken in time.
    //
    // Errors: RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED) if those of all streams
    // are too much memory. A single one always may.
    absl::Status BeginWrite(size_t message_bytes);
    // It has been taken, or never will.
    void EndWrite();
    // The stream has ended, which its caller is to take in time, too.
    void End();

   private:
    friend class StreamPlaces;

    Place(StreamPlaces& places, grpc_call* call, access::Caller caller,
          bool is_local, access::FairShares::Grant share)
        : places_(&places),
          call_(call),
          caller_(std::move(caller)),
          is_local_(is_local),
          share_(std::move(share)) {}

    StreamPlaces* places_;
    grpc_call* call_;
    access::Caller caller_;
    bool is_local_;
    size_t bytes_ = 0;
    bool is_over_ = false;
    access::FairShares::Grant share_;
    access::FairShares::Grant byte_share_;  // Of the message on its way.
  };

  // Takes a place for `call`, which outlives it. Callers that are not local
  // leave a quarter of all to those that are. Apart from that, streams and the
  // memory of their messages are divided among callers as access::FairShares
  // says.
  //
  // Errors: RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED) if there is none.
  absl::StatusOr<Place> Enter(grpc_call* call, const access::Caller& caller,
                              bool is_local);

 private:
  CallWatch watch_{GRPC_STATUS_UNAVAILABLE, "nobody takes the next message"};
  access::FairShares shares_{{.what = "streams that are read",
                              .capacity = kStreamsMax,
                              .reason = ErrorReason::kRequestsExhausted}};
  access::FairShares byte_shares_{
      {.what = "bytes of messages that wait for readers to take them",
       .capacity = kBytesMax,
       .reason = ErrorReason::kRequestsExhausted}};
  Mutex mu_;
  size_t stream_count_ ABSL_GUARDED_BY(mu_) = 0;
  size_t bytes_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace msitd::service
