// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpc/grpc.h>

#include <functional>
#include <thread>
#include <vector>

#include "protos/os/thread.h"
#include "protos/status/mutex.h"

namespace msitd::service {

// Cancels calls that are late. A thread searches for them ten times a second;
// it sleeps while there are no calls that could be late. Thread-safe.
class LateCalls {
 public:
  struct FoundCalls {
    // Late calls, each with a reference (grpc_call_ref) that is given up once
    // it is cancelled.
    std::vector<grpc_call*> late;
    // Whether other calls may be late in the future.
    bool has_others = false;
  };

  // `code` and `why` are the status of a late call; `why` is borrowed. `find`
  // is called on the thread, without locks held.
  LateCalls(ThreadName name, grpc_status_code code, const char* why,
            std::function<FoundCalls()> find);
  // `find` is not called afterwards.
  ~LateCalls();
  LateCalls(const LateCalls&) = delete;
  LateCalls& operator=(const LateCalls&) = delete;

  // Must be called after `find` can find another call.
  void Watch();

 private:
  void Run();
  // Waits until it is time for the next search. Returns false at the end.
  bool Wait();

  const grpc_status_code code_;
  const char* const why_;
  const std::function<FoundCalls()> find_;
  Mutex mu_;
  CondVar changed_;
  bool has_calls_ ABSL_GUARDED_BY(mu_) = false;
  // Whether only a notification ends the sleep of the thread.
  bool is_asleep_ ABSL_GUARDED_BY(mu_) = false;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace msitd::service
