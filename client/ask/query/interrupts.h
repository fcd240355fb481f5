// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <signal.h>

#include <chrono>
#include <set>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "protos/os/unique_fd.h"
#include "protos/status/mutex.h"

namespace grpc {
class ClientContext;
}  // namespace grpc

namespace msitd::ask {

// Ctrl-C and SIGTERM as something that code can wait for.
//
// main makes it before any other thread, because it blocks both signals for all
// threads. A thread of its own receives them.
//
// While no Hold is alive, the first signal ends the process with exit code 130.
// While one is, the first signal cancels the calls that are held, and the owner
// of the Hold cleans up and returns; a second signal ends the process at once.
// Thread-safe.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool interrupted() const;

  // Waits for `delay` or until interrupted, whichever comes first. Returns
  // whether it was interrupted.
  bool WaitFor(std::chrono::milliseconds delay);

  // Defers the effect of a signal while it is alive. A signal cancels `call`,
  // unless that is null. `call` outlives the Hold.
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

  // While it is alive, signals do what they did before there was an Interrupts,
  // as is right for a child that owns the terminal. Made and destroyed on the
  // main thread, while no Hold is alive.
  class Handover {
   public:
    explicit Handover(Interrupts& interrupts);
    ~Handover();
    Handover(const Handover&) = delete;
    Handover& operator=(const Handover&) = delete;

   private:
    Interrupts& interrupts_;
  };

 private:
  void StartWatching();
  void StopWatching();
  void Watch();
  void OnSignal();

  sigset_t set_;
  UniqueFd signals_;
  UniqueFd stop_;
  std::thread watcher_;

  mutable Mutex mu_;
  CondVar changed_;
  bool interrupted_ ABSL_GUARDED_BY(mu_) = false;
  int hold_count_ ABSL_GUARDED_BY(mu_) = 0;
  std::multiset<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::ask
