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

// Makes Ctrl-C and SIGTERM events that code can wait for.
//
// main creates it before any other thread, because it blocks both signals for
// all threads. A separate thread receives them.
//
// While no Hold exists, the first signal ends the process with exit code 130.
// While one exists, the first signal cancels the calls that are held, and the
// owner of the Hold cleans up and returns. A second signal ends the process at
// once. Thread-safe.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  Interrupts(const Interrupts&) = delete;
  Interrupts& operator=(const Interrupts&) = delete;

  bool interrupted() const;

  // Waits for `delay` or until an interrupt. Returns whether there was an
  // interrupt.
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

  // During its lifetime, signals have the effect that they had before
  // Interrupts was created, for a child that owns the terminal. Created and
  // destroyed on the main thread, while no Hold exists.
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
