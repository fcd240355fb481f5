// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "protos/status/status.h"

namespace msitd::server {
namespace {

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

absl::StatusOr<StopSignals> StopSignals::Install() {
  ::signal(SIGPIPE, SIG_IGN);
  sigset_t set = StopSet();
  sigaddset(&set, SIGHUP);
  if (const int error = ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
      error != 0) {
    return ErrnoStatus(error, "pthread_sigmask");
  }
  UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.valid()) return ErrnoStatus(errno, "signalfd");
  return StopSignals(std::move(fd));
}

std::optional<int> StopSignals::Wait(
    std::optional<std::chrono::milliseconds> timeout) {
  pollfd entry{fd_.get(), POLLIN, 0};
  const int wait_ms =
      timeout.has_value() ? static_cast<int>(timeout->count()) : -1;
  if (::poll(&entry, 1, wait_ms) <= 0) return std::nullopt;
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof(info)) != sizeof(info)) {
    return std::nullopt;
  }
  return static_cast<int>(info.ssi_signo);
}

void StopSignals::LetNextKill() {
  // Both signals still have their default action.
  const sigset_t set = StopSet();
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace msitd::server
