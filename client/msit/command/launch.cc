// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/launch.h"

#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "client/msit/table/output_file.h"
#include "protos/status/status.h"

namespace msitd::msit {
namespace {

constexpr uint64_t kRoomBytesMin = uint64_t{2} << 30;

constexpr int kSignalBase = 128;

constexpr char kPreloadVariable[] = "LD_PRELOAD";

// Signals that end msit unless it waits for a child.
constexpr std::array<int, 4> kSignals = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};

std::atomic<pid_t> child = -1;

extern "C" void PassOn(int signal) {
  // Those of the terminal have reached the child as well.
  if (signal == SIGINT || signal == SIGQUIT) return;
  const pid_t pid = child.load();
  if (pid > 0) kill(pid, signal);
}

// Passes signals on while it is alive. A signal that was ignored stays so.
class PassingOn {
 public:
  PassingOn() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : kSignals) sigaddset(&signals, signal);
    // None may come before the child is known.
    pthread_sigmask(SIG_BLOCK, &signals, &mask_);
    struct sigaction action = {};
    action.sa_handler = PassOn;
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
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  void Start(pid_t pid) {
    child = pid;
    pthread_sigmask(SIG_SETMASK, &mask_, nullptr);
  }

  const sigset_t& mask() const { return mask_; }

 private:
  sigset_t mask_ = {};
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

// Borrows the strings.
std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

bool IsAllowed(char c) {
  constexpr std::string_view kOthers = "_-./=:,[]";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || kOthers.find(c) != std::string_view::npos;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> SplitCommand(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\n\r\f\v";
  std::vector<std::string> words;
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) break;
    const std::string_view word =
        text.substr(0, std::min(text.find_first_of(kBlanks), text.size()));
    const bool is_first = words.empty();
    const auto wrong = std::find_if(word.begin(), word.end(), [&](char c) {
      return !IsAllowed(c) && (is_first || c != ';');
    });
    if (wrong != word.end()) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "--exec: \"{}\" has a character other than letters, "
                        "digits and _-./=:,[]; put such a command into a "
                        "script",
                        word);
    }
    words.emplace_back(word);
    text.remove_prefix(word.size());
  }
  if (words.empty()) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "--exec: the command is empty");
  }
  return words;
}

absl::Status CheckRoom(const std::string& folder) {
  std::filesystem::path there = AbsolutePath(folder);
  std::error_code error;
  while (there.has_relative_path() && !std::filesystem::exists(there, error)) {
    there = there.parent_path();
  }
  if (access(there.c_str(), W_OK) != 0) {
    return ErrnoStatus(errno, "write in " + there.string());
  }
  struct statvfs room = {};
  if (statvfs(there.c_str(), &room) != 0) {
    return ErrnoStatus(errno, there.string());
  }
  if (uint64_t{room.f_bavail} * room.f_frsize < kRoomBytesMin) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "{}: the file system has less than 2 GiB left",
                      there.string());
  }
  return absl::OkStatus();
}

void Preload(const std::string& library, Environment& environment) {
  const char* const before = std::getenv(kPreloadVariable);
  const bool has_others = before != nullptr && *before != '\0';
  environment[kPreloadVariable] =
      has_others ? fmt::format("{}:{}", library, before) : library;
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

}  // namespace msitd::msit
