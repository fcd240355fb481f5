// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/group_witness.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>
#include <utility>

#include "protos/status/status.h"

namespace msitd::ask {

// The time of the last signal of each kind, by the clock of NowMs. In memory
// shared by both processes.
struct SeenSignals {
  std::atomic<int64_t> interrupt_ms;
  std::atomic<int64_t> quit_ms;
};

namespace {

static_assert(std::atomic<int64_t>::is_always_lock_free);

constexpr int kPollMs = 1;
constexpr int64_t kNever = INT64_MIN / 2;

int64_t NowMs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1'000'000;
}

// The loop of the witness. It is a fork of a process with threads, so only
// async-signal-safe functions may be called.
[[noreturn]] void Watch(SeenSignals& seen, pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(0);
  sigset_t watched;
  sigemptyset(&watched);
  sigaddset(&watched, SIGINT);
  sigaddset(&watched, SIGQUIT);
  while (true) {
    const int signal = sigwaitinfo(&watched, nullptr);
    if (signal == SIGINT) seen.interrupt_ms = NowMs();
    if (signal == SIGQUIT) seen.quit_ms = NowMs();
  }
}

}  // namespace

absl::StatusOr<GroupWitness> GroupWitness::Start() {
  void* const memory =
      mmap(nullptr, sizeof(SeenSignals), PROT_READ | PROT_WRITE,
           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return ErrnoStatus(errno, "map memory");
  auto* const seen = new (memory) SeenSignals{kNever, kNever};
  // The witness blocks these signals from the beginning, including those that
  // are used to end a group. This process ends it.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const pid_t parent = getpid();
  // Skips the fork handlers of libraries, which are for children that continue
  // to run.
  const pid_t pid = _Fork();
  if (pid == 0) Watch(*seen, parent);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid < 0) {
    munmap(memory, sizeof(SeenSignals));
    return ErrnoStatus(error, "start a process");
  }
  return GroupWitness(pid, seen);
}

GroupWitness::GroupWitness(GroupWitness&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      seen_(std::exchange(other.seen_, nullptr)) {}

GroupWitness::~GroupWitness() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  munmap(seen_, sizeof(SeenSignals));
}

bool GroupWitness::HasSeen(int signal) const {
  const std::atomic<int64_t>& last =
      signal == SIGINT ? seen_->interrupt_ms : seen_->quit_ms;
  const int64_t asked_ms = NowMs();
  while (true) {
    if (last >= asked_ms - kGroupWait.count()) return true;
    if (NowMs() >= asked_ms + kGroupWait.count()) return false;
    poll(nullptr, 0, kPollMs);
  }
}

}  // namespace msitd::ask
