// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpc/grpc.h>

#include <chrono>
#include <map>

#include "daemon/service/call/late_calls.h"
#include "protos/status/mutex.h"

namespace msitd::service {

// Ends calls whose next message is not received or not sent in time.
// Thread-safe.
class CallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // `code` and `why` are the status of a late call. Borrows `why`.
  explicit CallWatch(
      grpc_status_code code = GRPC_STATUS_DEADLINE_EXCEEDED,
      const char* why = "the next message took too long to come");
  // No message may be expected any more.
  ~CallWatch() = default;
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // Expects that `call` sends or receives a message until `deadline`. Otherwise
  // the call is cancelled, at most a tenth of a second later. `call` must stay
  // valid until Came.
  void Expect(grpc_call* call, Clock::time_point deadline);

  // Reports that the message was sent or received, or that it never will be.
  void Came(grpc_call* call);

 private:
  LateCalls::FoundCalls TakeLate() ABSL_LOCKS_EXCLUDED(mu_);

  Mutex mu_;
  std::map<grpc_call*, Clock::time_point> expected_ ABSL_GUARDED_BY(mu_);
  // Ends before the other members.
  LateCalls late_;
};

}  // namespace msitd::service
