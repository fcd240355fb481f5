// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/late_calls.h"

#include <chrono>
#include <utility>

namespace msitd::service {
namespace {

constexpr std::chrono::milliseconds kInterval{100};

}  // namespace

LateCalls::LateCalls(ThreadName name, grpc_status_code code, const char* why,
                     std::function<FoundCalls()> find)
    : code_(code),
      why_(why),
      find_(std::move(find)),
      thread_(StartThread(name, [this] { Run(); })) {}

LateCalls::~LateCalls() {
  {
    MutexLock lock(mu_);
    stopped_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void LateCalls::Watch() {
  bool was_asleep = false;
  {
    MutexLock lock(mu_);
    has_calls_ = true;
    was_asleep = std::exchange(is_asleep_, false);
  }
  if (was_asleep) changed_.NotifyOne();
}

bool LateCalls::Wait() {
  MutexLock lock(mu_);
  while (!has_calls_ && !stopped_) {
    is_asleep_ = true;
    changed_.Wait(mu_);
  }
  is_asleep_ = false;
  const auto next = std::chrono::steady_clock::now() + kInterval;
  while (!stopped_ && changed_.WaitUntil(mu_, next)) {
  }
  has_calls_ = false;
  return !stopped_;
}

void LateCalls::Run() {
  while (Wait()) {
    const FoundCalls found = find_();
    for (grpc_call* call : found.late) {
      grpc_call_cancel_with_status(call, code_, why_, nullptr);
      grpc_call_unref(call);
    }
    if (!found.has_others) continue;
    MutexLock lock(mu_);
    has_calls_ = true;
  }
}

}  // namespace msitd::service
