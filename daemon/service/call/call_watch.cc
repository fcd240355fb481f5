// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/call_watch.h"

#include <vector>

#include "protos/os/thread.h"

namespace msitd::service {
namespace {

constexpr std::chrono::milliseconds kLookInterval{100};

}  // namespace

CallWatch::CallWatch(grpc_status_code code, const char* why)
    : code_(code),
      why_(why),
      watcher_(StartThread("call-watch", [this] { Watch(); })) {}

CallWatch::~CallWatch() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  changed_.NotifyAll();
  watcher_.join();
}

void CallWatch::Expect(grpc_call* call, Clock::time_point deadline) {
  bool is_watching = false;
  {
    MutexLock lock(mu_);
    expected_.emplace(call, deadline);
    is_watching = is_watching_;
  }
  if (!is_watching) changed_.NotifyOne();
}

void CallWatch::Came(grpc_call* call) {
  MutexLock lock(mu_);
  expected_.erase(call);
}

void CallWatch::Watch() {
  while (true) {
    std::vector<grpc_call*> late;
    {
      MutexLock lock(mu_);
      while (expected_.empty() && !stopped_) {
        is_watching_ = false;
        changed_.Wait(mu_);
      }
      if (stopped_) return;
      is_watching_ = true;
      (void)changed_.WaitUntil(mu_, Clock::now() + kLookInterval);
      const auto now = Clock::now();
      for (auto it = expected_.begin(); it != expected_.end();) {
        if (now < it->second) {
          ++it;
          continue;
        }
        // Keeps the call alive until it is cancelled, which happens without the
        // lock.
        grpc_call_ref(it->first);
        late.push_back(it->first);
        it = expected_.erase(it);
      }
    }
    for (grpc_call* call : late) {
      grpc_call_cancel_with_status(call, code_, why_, nullptr);
      grpc_call_unref(call);
    }
  }
}

}  // namespace msitd::service
