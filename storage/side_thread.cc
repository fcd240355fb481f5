// SPDX-License-Identifier: Apache-2.0
#include "storage/side_thread.h"

#include <utility>

#include "protos/base/check.h"
#include "protos/os/thread.h"

namespace msitd::storage {

SideThread::SideThread() : thread_(StartThread("index", [this] { Loop(); })) {}

SideThread::~SideThread() {
  {
    const MutexLock lock(mu_);
    MSITD_CHECK(!is_busy_);
    must_stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void SideThread::Start(absl::AnyInvocable<void()> work) {
  {
    const MutexLock lock(mu_);
    MSITD_CHECK(!is_busy_);
    work_ = std::move(work);
    is_busy_ = true;
  }
  changed_.NotifyAll();
}

void SideThread::Await() {
  const MutexLock lock(mu_);
  while (is_busy_) changed_.Wait(mu_);
}

void SideThread::Loop() {
  while (true) {
    absl::AnyInvocable<void()> work;
    {
      const MutexLock lock(mu_);
      while (!is_busy_ && !must_stop_) changed_.Wait(mu_);
      if (!is_busy_) return;
      work = std::move(work_);
    }
    work();
    work = nullptr;
    {
      const MutexLock lock(mu_);
      is_busy_ = false;
    }
    changed_.NotifyAll();
  }
}

}  // namespace msitd::storage
