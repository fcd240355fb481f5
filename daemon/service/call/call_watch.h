// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpc/grpc.h>

#include <chrono>
#include <map>
#include <thread>

#include "protos/status/mutex.h"

namespace msitd::service {

// Ends calls whose next message does not come, or is not taken, in time.
// Thread-safe.
class CallWatch {
 public:
  using Clock = std::chrono::steady_clock;

  // With which code and why a late call ends. Borrows `why`.
  explicit CallWatch(
      grpc_status_code code = GRPC_STATUS_DEADLINE_EXCEEDED,
      const char* why = "the next message took too long to come");
  // Nothing is expected any more.
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // A message of `call` is to come or go until `deadline`: behind that the call
  // is cancelled, a tenth of a second late at most. It lives until Came.
  void Expect(grpc_call* call, Clock::time_point deadline);

  // The message has come or gone, or never will.
  void Came(grpc_call* call);

 private:
  void Watch();

  const grpc_status_code code_;
  const char* const why_;
  Mutex mu_;
  CondVar changed_;
  std::map<grpc_call*, Clock::time_point> expected_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watcher_;
};

}  // namespace msitd::service
