// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/call_watch.h"

namespace msitd::service {

CallWatch::CallWatch(grpc_status_code code, const char* why)
    : late_("call-watch", code, why, [this] { return TakeLate(); }) {}

void CallWatch::Expect(grpc_call* call, Clock::time_point deadline) {
  {
    MutexLock lock(mu_);
    expected_.emplace(call, deadline);
  }
  late_.Watch();
}

void CallWatch::Came(grpc_call* call) {
  MutexLock lock(mu_);
  expected_.erase(call);
}

LateCalls::FoundCalls CallWatch::TakeLate() {
  LateCalls::FoundCalls found;
  const auto now = Clock::now();
  MutexLock lock(mu_);
  for (auto it = expected_.begin(); it != expected_.end();) {
    if (now < it->second) {
      ++it;
      continue;
    }
    grpc_call_ref(it->first);
    found.late.push_back(it->first);
    it = expected_.erase(it);
  }
  found.has_others = !expected_.empty();
  return found;
}

}  // namespace msitd::service
