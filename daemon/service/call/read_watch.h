// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpc/grpc.h>

#include <chrono>
#include <map>
#include <thread>

#include "protos/status/mutex.h"

namespace msitd::service {

// Ends calls whose next message does not come in time. Thread-safe.
class ReadWatch {
 public:
  using Clock = std::chrono::steady_clock;

  ReadWatch();
  // Nothing is expected any more.
  ~ReadWatch();
  ReadWatch(const ReadWatch&) = delete;
  ReadWatch& operator=(const ReadWatch&) = delete;

  // A message of `call` is to come until `deadline`: behind that the call is
  // cancelled with DEADLINE_EXCEEDED, a tenth of a second late at most. It
  // lives until Came.
  void Expect(grpc_call* call, Clock::time_point deadline);

  // The message has come, or never will.
  void Came(grpc_call* call);

 private:
  void Watch();

  Mutex mu_;
  CondVar changed_;
  std::map<grpc_call*, Clock::time_point> expected_ ABSL_GUARDED_BY(mu_);
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread watcher_;
};

}  // namespace msitd::service
