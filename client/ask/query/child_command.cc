// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/child_command.h"

#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <optional>
#include <string_view>
#include <utility>

#include "client/ask/query/group_witness.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

constexpr int kSignalBase = 128;

// Signals that end this process unless it waits for a child.
constexpr std::array<int, 4> kSignals = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

std::atomic<pid_t> child = -1;
std::atomic<const GroupWitness*> witness = nullptr;

// Returns whether the child also received the signal, because it is in the
// group of this process.
bool HasReachedChild(int signal, const siginfo_t& info) {
  if (signal != SIGINT && signal != SIGQUIT) return false;
  // A terminal sends signals to the group; a process may send them to a process
  // or to a group.
  if (info.si_code > 0) return true;
  const GroupWitness* const asked = witness.load();
  return asked == nullptr || asked->HasSeen(signal);
}

extern "C" void PassOn(int signal, siginfo_t* info, void* /*context*/) {
  const int before = errno;
  const pid_t pid = child.load();
  if (pid > 0 && !HasReachedChild(signal, *info)) kill(pid, signal);
  errno = before;
}

// Forwards signals during its lifetime. A signal that was ignored stays
// ignored.
class PassingOn {
 public:
  PassingOn() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : kSignals) sigaddset(&signals, signal);
    // No signal may arrive before the child is known.
    pthread_sigmask(SIG_BLOCK, &signals, &mask_);
    // Without a witness, a signal from a terminal still reaches the child once.
    auto started = GroupWitness::Start();
    if (started.ok()) {
      witness_.emplace(*std::move(started));
      witness = &*witness_;
    }
    struct sigaction action = {};
    action.sa_sigaction = PassOn;
    action.sa_flags = SA_SIGINFO;
    // One signal at a time, because each handler may wait for the witness.
    action.sa_mask = signals;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], nullptr, &before_[i]);
      if (before_[i].sa_handler != SIG_IGN) {
        sigaction(kSignals[i], &action, nullptr);
      }
    }
  }

  PassingOn(const PassingOn&) = delete;
  PassingOn& operator=(const PassingOn&) = delete;

  ~PassingOn() {
    child = -1;
    for (size_t i = 0; i < kSignals.size(); ++i) {
      sigaction(kSignals[i], &before_[i], nullptr);
    }
    witness = nullptr;
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  void Start(pid_t pid) {
    child = pid;
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  const sigset_t& mask() const { return mask_; }

 private:
  sigset_t mask_ = {};
  std::optional<GroupWitness> witness_;
  std::array<struct sigaction, kSignals.size()> before_ = {};
};

std::vector<std::string> ChangedEnvironment(const Environment& changes) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!changes.contains(std::string(text.substr(0, text.find('='))))) {
      out.emplace_back(text);
    }
  }
  for (const auto& [name, value] : changes) {
    if (value.has_value()) out.push_back(name + "=" + *value);
  }
  return out;
}

}  // namespace

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

absl::StatusOr<int> RunCommand(const std::vector<std::string>& words,
                               const Environment& changes) {
  std::vector<std::string> arguments = words;
  std::vector<std::string> variables = ChangedEnvironment(changes);
  PassingOn passing;
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
  posix_spawnattr_setsigmask(&attributes, &passing.mask());
  pid_t pid = -1;
  const int error =
      posix_spawnp(&pid, arguments.front().c_str(), nullptr, &attributes,
                   Pointers(arguments).data(), Pointers(variables).data());
  posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    return ErrnoStatus(error, "start " + arguments.front());
  }
  passing.Start(pid);
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return ErrnoStatus(errno, "wait for the command");
  }
  return WIFSIGNALED(status) ? kSignalBase + WTERMSIG(status)
                             : WEXITSTATUS(status);
}

}  // namespace msitd::ask
