// SPDX-License-Identifier: Apache-2.0
#include "protos/endpoint/personal_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "protos/os/unique_fd.h"

namespace msitd::endpoint {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kStartVariable[] = "MSITD_START";
constexpr int kPollMs = 20;
constexpr size_t kProblemBytesMax = 2048;

std::string ErrorText(int error) {
  return std::generic_category().message(error);
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

bool IsInService(const Surroundings& around) {
  if (around.variable("SYSTEMD_EXEC_PID") == std::to_string(::getpid())) {
    return true;
  }
  const std::string journal = around.variable("JOURNAL_STREAM");
  struct stat info {};
  return !journal.empty() && ::fstat(STDERR_FILENO, &info) == 0 &&
         journal ==
             std::to_string(info.st_dev) + ":" + std::to_string(info.st_ino);
}

bool IsProgram(const std::string& path) {
  struct stat info {};
  return ::access(path.c_str(), X_OK) == 0 &&
         ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Returns "" if there is no msitd.
std::string FindMsitd(const Surroundings& around) {
  char self[4096];
  const ssize_t bytes = ::readlink("/proc/self/exe", self, sizeof(self));
  if (bytes > 0) {
    std::string_view path(self, static_cast<size_t>(bytes));
    path = path.substr(0, path.rfind('/') + 1);
    std::string beside = std::string(path) + "msitd";
    if (IsProgram(beside)) return beside;
  }
  const std::string path = around.variable("PATH");
  for (size_t at = 0; at <= path.size();) {
    const size_t colon = std::min(path.find(':', at), path.size());
    if (colon > at) {
      std::string program = path.substr(at, colon - at) + "/msitd";
      if (IsProgram(program)) return program;
    }
    at = colon + 1;
  }
  return "";
}

// Variables of this process that are not for the daemon: libraries that are
// preloaded into a job, and those of the service that contains it.
bool IsForDaemon(std::string_view entry) {
  for (const std::string_view prefix :
       {"LD_PRELOAD=", "NOTIFY_SOCKET=", "WATCHDOG_", "LISTEN_",
        "SYSTEMD_EXEC_PID=", "JOURNAL_STREAM="}) {
    if (entry.starts_with(prefix)) return false;
  }
  return true;
}

// The child gets none of the signal settings of this process.
struct Spawning {
  Spawning() {
    ::posix_spawn_file_actions_init(&files);
    ::posix_spawnattr_init(&attributes);
  }
  ~Spawning() {
    ::posix_spawn_file_actions_destroy(&files);
    ::posix_spawnattr_destroy(&attributes);
  }
  Spawning(const Spawning&) = delete;
  Spawning& operator=(const Spawning&) = delete;

  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
};

// Runs `program --personal` with its stderr in `errors`. Returns an error of
// the system, or 0.
int Spawn(const std::string& program, int errors, pid_t& pid) {
  Spawning how;
  ::posix_spawn_file_actions_addopen(&how.files, STDIN_FILENO, "/dev/null",
                                     O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&how.files, STDOUT_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&how.files, errors, STDERR_FILENO);
  sigset_t none;
  sigset_t defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  ::posix_spawnattr_setsigmask(&how.attributes, &none);
  ::posix_spawnattr_setsigdefault(&how.attributes, &defaults);
  // Ctrl-C ends the client, but not a daemon that others may wait for.
  ::posix_spawnattr_setpgroup(&how.attributes, 0);
  ::posix_spawnattr_setflags(&how.attributes, POSIX_SPAWN_SETSIGMASK |
                                                  POSIX_SPAWN_SETSIGDEF |
                                                  POSIX_SPAWN_SETPGROUP);
  std::vector<char*> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    if (IsForDaemon(*entry)) variables.push_back(*entry);
  }
  variables.push_back(nullptr);
  std::string name = program;
  std::string flag = "--personal";
  char* const arguments[] = {name.data(), flag.data(), nullptr};
  return ::posix_spawn(&pid, program.c_str(), &how.files, &how.attributes,
                       arguments, variables.data());
}

enum class Wait { kEnded, kTimeout, kInterrupted };

// Reads until the other end of the pipe is closed.
Wait ReadAll(int pipe, const StartOptions& options, std::string& text) {
  const auto deadline = Clock::now() + options.timeout;
  while (true) {
    pollfd wait{pipe, POLLIN, 0};
    if (::poll(&wait, 1, kPollMs) > 0) {
      char part[512];
      const ssize_t bytes = ::read(pipe, part, sizeof(part));
      if (bytes == 0 || (bytes < 0 && errno != EINTR)) return Wait::kEnded;
      if (bytes > 0 && text.size() < kProblemBytesMax) {
        text.append(part, static_cast<size_t>(bytes));
      }
      continue;
    }
    if (options.is_interrupted && options.is_interrupted()) {
      return Wait::kInterrupted;
    }
    if (Clock::now() > deadline) return Wait::kTimeout;
  }
}

// Returns the line of an error of msitd without the name of the program.
std::string ProblemIn(std::string text) {
  constexpr std::string_view kName = "msitd: ";
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.starts_with(kName)) text.erase(0, kName.size());
  return text.empty() ? "it exited without an error message" : text;
}

Started Run(const std::string& program, const std::string& socket_dir,
            const StartOptions& options) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return {false, "cannot start " + program + ": " + ErrorText(errno)};
  }
  const UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  pid_t pid = -1;
  const int error = Spawn(program, to.get(), pid);
  to.reset();
  if (error != 0) {
    return {false, "cannot start " + program + ": " + ErrorText(error)};
  }
  std::string said;
  const Wait wait = ReadAll(from.get(), options, said);
  // A program that has closed its stderr ends at once. Otherwise it becomes a
  // zombie until this process ends.
  while (::waitpid(pid, nullptr, wait == Wait::kEnded ? 0 : WNOHANG) < 0 &&
         errno == EINTR) {
  }
  if (IsListening(socket_dir)) return {true, ""};
  if (wait == Wait::kTimeout) return {};
  if (wait == Wait::kInterrupted) return {false, "interrupted"};
  return {false, "your own daemon does not start: " + ProblemIn(said)};
}

}  // namespace

std::string WhyNotStart(Start start, const Surroundings& around) {
  if (start == Start::kYes) return "";
  if (start == Start::kNo) return "--no-start was given";
  const std::string wanted = Lower(around.variable(kStartVariable));
  for (const std::string_view no : {"0", "false", "no", "off"}) {
    if (wanted == no) return std::string(kStartVariable) + " is " + wanted;
  }
  if (!wanted.empty() || start == Start::kNamed) return "";
  if (around.uid == 0) return "for root, MSITD_START=1 has to allow it";
  if (IsInService(around)) {
    return "for a process of a service, MSITD_START=1 has to allow it";
  }
  return "";
}

std::string CheckSocketDir(const std::string& socket_dir, uid_t uid) {
  struct stat info {};
  if (::lstat(socket_dir.c_str(), &info) != 0) {
    return errno == ENOENT ? "" : socket_dir + ": " + ErrorText(errno);
  }
  if (!S_ISDIR(info.st_mode)) return socket_dir + " is not a folder";
  if (info.st_uid != uid) {
    return socket_dir + " belongs to user " + std::to_string(info.st_uid) +
           "; set XDG_RUNTIME_DIR to a folder of your own";
  }
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return "others can write " + socket_dir + "; run: chmod 700 " + socket_dir;
  }
  return "";
}

bool IsListening(const std::string& socket_dir) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = socket_dir + "/" + std::string(kQuerySocket);
  if (path.size() >= sizeof(address.sun_path)) return false;
  std::copy(path.begin(), path.end(), std::begin(address.sun_path));
  const UniqueFd fd(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return false;
  return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)) == 0 ||
         errno == EAGAIN;
}

Started EnsurePersonalDaemon(const std::string& socket_dir,
                             const StartOptions& options,
                             const Surroundings& around) {
  if (std::string problem = CheckSocketDir(socket_dir, around.uid);
      !problem.empty()) {
    return {false, std::move(problem)};
  }
  if (IsListening(socket_dir)) return {true, ""};
  const std::string why = WhyNotStart(options.start, around);
  if (!why.empty()) {
    return {false,
            "no msitd runs on this machine, neither a service nor a daemon of "
            "your own, and none was started: " +
                why +
                ". To start one, run: msitd --personal. To use another one, "
                "set MSITD_ENDPOINT"};
  }
  const std::string program =
      options.program.empty() ? FindMsitd(around) : options.program;
  if (program.empty()) {
    return {false,
            "no msitd runs on this machine, and the program msitd was not "
            "found in PATH: install msitd, or set MSITD_ENDPOINT"};
  }
  return Run(program, socket_dir, options);
}

}  // namespace msitd::endpoint
