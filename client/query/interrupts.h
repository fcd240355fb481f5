// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "protos/os/unique_fd.h"
#include "protos/status/mutex.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace msitd::ctl {

// Ctrl-C and SIGTERM as something that code can wait for.
//
// Made by main before any other thread, because it blocks both signals for all
// of them; one thread of its own takes them. While no Hold is alive the first
// signal ends the process with exit code 130. While one is, the signal cancels
// the calls that are held, and whoever made the Hold cleans up and returns; a
// second signal ends the process at once. Thread-safe.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool interrupted() const;

  // Returns true if interrupted, at once if so already; else false, after
  // `delay`.
  bool WaitFor(std::chrono::milliseconds delay);

  // Defers what a signal does while it is alive. `call`, unless null, is
  // cancelled by a signal; it outlives the Hold.
  class Hold {
   public:
    explicit Hold(Interrupts& interrupts, grpc::ClientContext* call = nullptr);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    Interrupts& interrupts_;
    grpc::ClientContext* const call_;
  };

 private:
  void Watch();
  void OnSignal();

  UniqueFd signals_;
  UniqueFd stop_;
  std::thread watcher_;

  mutable Mutex mu_;
  CondVar changed_;
  bool interrupted_ ABSL_GUARDED_BY(mu_) = false;
  int hold_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::multiset<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::ctl
