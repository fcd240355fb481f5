// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/read_watch.h"

#include <vector>

#include "protos/os/thread.h"

namespace msitd::service {
namespace {

constexpr std::chrono::milliseconds kLookInterval{100};

}  // namespace

ReadWatch::ReadWatch()
    : watcher_(StartThread("read-watch", [this] { Watch(); })) {}

ReadWatch::~ReadWatch() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  changed_.NotifyAll();
  watcher_.join();
}

void ReadWatch::Expect(grpc_call* call, Clock::time_point deadline) {
  {
    MutexLock lock(mu_);
    expected_.emplace(call, deadline);
  }
  changed_.NotifyOne();
}

void ReadWatch::Came(grpc_call* call) {
  MutexLock lock(mu_);
  expected_.erase(call);
}

void ReadWatch::Watch() {
  while (true) {
    std::vector<grpc_call*> late;
    {
      MutexLock lock(mu_);
      while (expected_.empty() && !stopped_) changed_.Wait(mu_);
      if (stopped_) return;
      (void)changed_.WaitUntil(mu_, Clock::now() + kLookInterval);
      const auto now = Clock::now();
      for (auto it = expected_.begin(); it != expected_.end();) {
        if (now < it->second) {
          ++it;
          continue;
        }
        // Keeps the call until it is cancelled, without the lock.
        grpc_call_ref(it->first);
        late.push_back(it->first);
        it = expected_.erase(it);
      }
    }
    for (grpc_call* call : late) {
      grpc_call_cancel_with_status(call, GRPC_STATUS_DEADLINE_EXCEEDED,
                                   "the next message took too long to come",
                                   nullptr);
      grpc_call_unref(call);
    }
  }
}

}  // namespace msitd::service
