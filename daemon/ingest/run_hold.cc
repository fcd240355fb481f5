// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/run_hold.h"

namespace msitd::ingest {

void HeldRuns::Acquire(const std::string& run) {
  MutexLock lock(mu_);
  while (!runs_.insert(run).second) free_.Wait(mu_);
}

void HeldRuns::Release(const std::string& run) {
  {
    MutexLock lock(mu_);
    runs_.erase(run);
  }
  free_.NotifyAll();
}

}  // namespace msitd::ingest
