// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/interrupts.h"

#include <grpcpp/client_context.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <string>

#include "client/ask/query/exit_code.h"
#include "protos/base/check.h"
#include "protos/os/thread.h"

namespace msitd::ask {
namespace {

// A signal that our parent has set to ignored, as shells do for background
// jobs, stays ignored.
void AddUnlessIgnored(int signal_number, sigset_t& set) {
  struct sigaction action = {};
  sigaction(signal_number, nullptr, &action);
  if (action.sa_handler != SIG_IGN) sigaddset(&set, signal_number);
}

[[noreturn]] void ExitInterrupted() {
  // The program has several names.
  const std::string line =
      std::string(program_invocation_short_name) + ": interrupted\n";
  [[maybe_unused]] const ssize_t written =
      ::write(STDERR_FILENO, line.data(), line.size());
  _exit(kExitInterrupted);
}

}  // namespace

Interrupts::Interrupts() {
  sigemptyset(&set_);
  AddUnlessIgnored(SIGINT, set_);
  AddUnlessIgnored(SIGTERM, set_);
  signals_ = UniqueFd(signalfd(-1, &set_, SFD_CLOEXEC));
  stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  MSITD_CHECK(signals_.valid() && stop_.valid());
  StartWatching();
}

Interrupts::~Interrupts() { StopWatching(); }

void Interrupts::StartWatching() {
  pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  watcher_ = StartThread("signals", [this] { Watch(); });
}

void Interrupts::StopWatching() {
  uint64_t count = 1;
  MSITD_CHECK(::write(stop_.get(), &count, sizeof(count)) == sizeof(count));
  watcher_.join();
  MSITD_CHECK(read(stop_.get(), &count, sizeof(count)) == sizeof(count));
}

Interrupts::Handover::Handover(Interrupts& interrupts)
    : interrupts_(interrupts) {
  interrupts_.StopWatching();
  pthread_sigmask(SIG_UNBLOCK, &interrupts_.set_, nullptr);
}

Interrupts::Handover::~Handover() { interrupts_.StartWatching(); }

void Interrupts::Watch() {
  pollfd fds[] = {{signals_.get(), POLLIN, 0}, {stop_.get(), POLLIN, 0}};
  while (true) {
    if (poll(fds, 2, -1) < 0) continue;
    if (fds[1].revents != 0) return;
    signalfd_siginfo info;
    if (read(signals_.get(), &info, sizeof(info)) == sizeof(info)) OnSignal();
  }
}

void Interrupts::OnSignal() {
  MutexLock lock(mu_);
  if (interrupted_ || hold_count_ == 0) ExitInterrupted();
  interrupted_ = true;
  for (grpc::ClientContext* call : calls_) call->TryCancel();
  changed_.NotifyAll();
}

bool Interrupts::interrupted() const {
  MutexLock lock(mu_);
  return interrupted_;
}

bool Interrupts::WaitFor(std::chrono::milliseconds delay) {
  const auto deadline = std::chrono::steady_clock::now() + delay;
  MutexLock lock(mu_);
  while (!interrupted_) {
    if (!changed_.WaitUntil(mu_, deadline)) return interrupted_;
  }
  return true;
}

Interrupts::Hold::Hold(Interrupts& interrupts, grpc::ClientContext* call)
    : interrupts_(interrupts), call_(call) {
  MutexLock lock(interrupts_.mu_);
  ++interrupts_.hold_count_;
  if (call_ == nullptr) return;
  interrupts_.calls_.insert(call_);
  // A signal may have arrived during another Hold, before this call existed.
  if (interrupts_.interrupted_) call_->TryCancel();
}

Interrupts::Hold::~Hold() {
  MutexLock lock(interrupts_.mu_);
  --interrupts_.hold_count_;
  if (call_ != nullptr)
    interrupts_.calls_.erase(interrupts_.calls_.find(call_));
}

}  // namespace msitd::ask
