// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/token_gate.h"

namespace msitd::msit_command {

void TokenGate::Reach(int64_t token) {
  const MutexLock lock(mu_);
  last_ = token;
  changed_.NotifyAll();
}

void TokenGate::Finish() {
  const MutexLock lock(mu_);
  is_finished_ = true;
  changed_.NotifyAll();
}

bool TokenGate::Has(int64_t token) {
  MutexLock lock(mu_);
  while (true) {
    if (last_.has_value() && *last_ >= token) return true;
    if (is_finished_) return false;
    changed_.Wait(mu_);
  }
}

}  // namespace msitd::msit_command
