// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpc/grpc.h>

#include <chrono>
#include <map>
#include <thread>

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
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // Expects that `call` sends or receives a message until `deadline`. Otherwise
  // the call is cancelled, at most a tenth of a second later. `call` must stay
  // valid until Came.
  void Expect(grpc_call* call, Clock::time_point deadline);

  // Reports that the message was sent or received, or that it never will be.
  void Came(grpc_call* call);

 private:
  void Watch();

  const grpc_status_code code_;
  const char* const why_;
  Mutex mu_;
  CondVar changed_;
  std::map<grpc_call*, Clock::time_point> expected_ ABSL_GUARDED_BY(mu_);
  // Whether the watcher searches for late calls at intervals, so that it needs
  // no notification of new ones.
  bool is_watching_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watcher_;
};

}  // namespace msitd::service
