// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "protos/status/mutex.h"

namespace msitd::storage {

// A thread that executes one task at a time for its owner, who must be a single
// thread.
class SideThread {
 public:
  SideThread();
  // No task may be in progress.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // Calls and then destroys `work` on the thread. The owner must call Await
  // before anything else.
  void Start(absl::AnyInvocable<void()> work);

  // Waits until `work` has returned. Its writes are then visible to the caller.
  void Await();

 private:
  void Loop();

  Mutex mu_;
  CondVar changed_;
  absl::AnyInvocable<void()> work_ ABSL_GUARDED_BY(mu_);
  bool is_busy_ ABSL_GUARDED_BY(mu_) = false;
  bool must_stop_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace msitd::storage
