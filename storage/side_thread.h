// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "protos/status/mutex.h"

namespace msitd::storage {

// A thread that does one thing at a time for its owner, who does another one
// meanwhile. Single-sequence: the owner.
class SideThread {
 public:
  SideThread();
  // Nothing is under way.
  ~SideThread();
  SideThread(const SideThread&) = delete;
  SideThread& operator=(const SideThread&) = delete;

  // Calls and destroys `work` on the thread. Await follows before anything
  // else.
  void Start(absl::AnyInvocable<void()> work);

  // Returns once it has returned; what it wrote is seen.
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
