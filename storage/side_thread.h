// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "protos/status/mutex.h"

namespace msitd::storage {

// A thread that does one piece of work at a time beside its owner.
// Single-sequence: the owner.
class SideThread {
 public:
  SideThread();
  // No work is under way.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // Calls and destroys `work` on the thread. The owner calls Await before
  // anything else.
  void Start(absl::AnyInvocable<void()> work);

  // Returns once `work` has returned. The caller then sees what `work` wrote.
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
