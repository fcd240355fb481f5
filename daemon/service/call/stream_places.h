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

// Bounds the total memory of streams whose clients do not read their messages.
// A client may immediately retry a stream that was refused or ended.
//
// Thread-safe.
class StreamPlaces {
 public:
  // Maximum number of concurrent streams.
  static constexpr size_t kStreamsMax = 256;
  // Maximum memory of the streams that are sending a message.
  static constexpr size_t kBytesMax = size_t{192} << 20;
  // Memory of one such stream: its message, both parsed and encoded, and the
  // data that it reads from. Small messages, which the client's transport
  // buffers even if the client does not read, are not counted.
  static constexpr size_t BytesOf(size_t message_bytes) {
    return message_bytes <= kSmallBytes ? 0
                                        : 2 * message_bytes + (size_t{1} << 20);
  }
  static constexpr size_t kSmallBytes = size_t{32} << 10;
  // How long sending a message may take. A client that pauses for longer must
  // request the rest again.
  static constexpr std::chrono::seconds kTakeTimeout{5};

  // The place of one stream, which is released when destroyed. Not thread-safe.
  class StreamPlace {
   public:
    StreamPlace(StreamPlace&& other) noexcept
        : places_(std::exchange(other.places_, nullptr)),
          call_(other.call_),
          caller_(std::move(other.caller_)),
          is_local_(other.is_local_),
          bytes_(std::exchange(other.bytes_, 0)),
          is_over_(other.is_over_),
          share_(std::move(other.share_)),
          byte_share_(std::move(other.byte_share_)) {}
    StreamPlace& operator=(StreamPlace&&) = delete;
    // No message may be in progress.
    ~StreamPlace();

    // Starts sending a message of this size, which must be received in time.
    //
    // Errors: RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED) if the messages of all
    // streams need too much memory. A single message is always allowed.
    absl::Status BeginWrite(size_t message_bytes);
    // Reports that the message was sent or never will be.
    void EndWrite();
    // Reports that the stream has ended. Its client must receive the status in
    // time as well.
    void End();

   private:
    friend class StreamPlaces;

    StreamPlace(StreamPlaces& places, grpc_call* call, access::Caller caller,
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
    access::FairShares::Grant byte_share_;  // Of the current message.
  };

  // Acquires a place for `call`, which must outlive it. A quarter of all places
  // is reserved for local callers. Apart from that, streams and the memory of
  // their messages are divided among callers by access::FairShares.
  //
  // Errors: RESOURCE_EXHAUSTED (REQUESTS_EXHAUSTED) if there is no place.
  absl::StatusOr<StreamPlace> Enter(grpc_call* call,
                                    const access::Caller& caller,
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
