// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/personal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/server/daemon.h"
#include "protos/endpoint/personal_daemon.h"
#include "protos/os/unique_fd.h"
#include "protos/status/status.h"

namespace msitd::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr mode_t kPersonalFolderMode = 0700;
constexpr mode_t kPersonalFileMode = 0600;
constexpr mode_t kPersonalUmask = 0077;

// A store with much to read back is waited for by its clients, within their own
// time limits.
constexpr std::chrono::seconds kStartMax{60};
constexpr std::chrono::milliseconds kPoll{10};

// The log of earlier daemons is kept once, beyond this size.
constexpr off_t kLogBytesMax = off_t{4} << 20;

// The first byte that the daemon writes into the pipe to its starter. An error
// message has a different one.
constexpr char kReady = '\0';

// Magic numbers of network file systems, from statfs(2).
constexpr unsigned kNfsMagic = 0x6969;
constexpr unsigned kLustreMagic = 0x0BD00BD0;
constexpr unsigned kSmbMagic = 0xFE534D42;

// Closes the files that the client has left open: they are not for the daemon.
void CloseInheritedFiles() {
  std::vector<int> files;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    files.push_back(std::atoi(entry.path().filename().c_str()));
  }
  for (const int file : files) {
    if (file > STDERR_FILENO) ::close(file);
  }
}

int Fail(std::string_view message) {
  fmt::print(stderr, "msitd: {}\n", message);
  return EXIT_FAILURE;
}

std::string Print(const std::string& socket_dir) {
  return fmt::format("unix:{}\n", socket_dir);
}

absl::StatusOr<UniqueFd> OpenLock(const std::string& socket_dir) {
  const std::string path = socket_dir + "/lock";
  UniqueFd lock(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                       kPersonalFileMode));
  if (!lock.valid()) return ErrnoStatus(errno, "open " + path);
  return lock;
}

// Waits until this process has the lock, and returns true; or until a daemon
// listens, and returns false.
absl::StatusOr<bool> LockOrFind(const UniqueFd& lock,
                                const std::string& socket_dir) {
  const auto deadline = Clock::now() + kStartMax;
  while (true) {
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) {
      // A daemon that was started without --personal has no lock.
      return !endpoint::IsListening(socket_dir);
    }
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return ErrnoStatus(errno, "lock " + socket_dir + "/lock");
    }
    if (endpoint::IsListening(socket_dir)) return false;
    if (Clock::now() > deadline) {
      return MakeStatus(absl::StatusCode::kDeadlineExceeded,
                        "another process is starting or ending your daemon and "
                        "does not finish; see: fuser -v {}/lock",
                        socket_dir);
    }
    std::this_thread::sleep_for(kPoll);
  }
}

bool IsOnNetwork(const std::string& path) {
  struct statfs info {};
  if (::statfs(path.c_str(), &info) != 0) return false;
  const auto type = static_cast<unsigned>(info.f_type);
  return type == kNfsMagic || type == kLustreMagic || type == kSmbMagic;
}

std::string HostName() {
  char name[256] = "";
  return ::gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

std::string RunningPath(const config::PersonalFiles& files) {
  return files.state_dir + "/running";
}

// Notes where the daemon of this store runs, for those who find the store in
// use.
void NoteRunning(const config::PersonalFiles& files,
                 const std::string& socket_dir) {
  std::ofstream(RunningPath(files)) << HostName() << ' ' << socket_dir << '\n';
}

bool IsInUse(const std::string& store) {
  const UniqueFd lock(
      ::open((store + "/LOCK").c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  return lock.valid() && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 &&
         errno == EWOULDBLOCK;
}

// Returns where another daemon uses the store; "" if that is unknown.
std::string UserOfStore(const config::PersonalFiles& files) {
  std::string host;
  std::string socket_dir;
  std::ifstream(RunningPath(files)) >> host >> socket_dir;
  if (socket_dir.empty() || !IsInUse(files.store())) return "";
  if (host != HostName()) {
    return fmt::format("; your daemon on {} uses it", host);
  }
  return fmt::format(
      "; your daemon with the sockets in {} uses it: to use it "
      "too, set MSITD_ENDPOINT={}",
      socket_dir, socket_dir);
}

// Adds what the user can do about a store that cannot be opened or created.
std::string WithAdvice(const std::string& message,
                       const config::PersonalFiles& files) {
  return fmt::format(
      "{}{}; the store of your own daemon is in {}{}; to keep it elsewhere, "
      "set XDG_STATE_HOME to a folder on a local disk with space",
      message, UserOfStore(files), files.state_dir,
      IsOnNetwork(files.state_dir) ? ", on a network file system" : "");
}

absl::Status MakeStateDir(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) return ErrnoStatus(error.value(), "make the folder " + path);
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> OpenLog(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) == 0 && info.st_size > kLogBytesMax) {
    (void)std::rename(path.c_str(), (path + ".1").c_str());
  }
  UniqueFd log(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
                      kPersonalFileMode));
  if (!log.valid()) return ErrnoStatus(errno, "open the log " + path);
  return log;
}

// Becomes the daemon in the child of StartPersonal.
[[noreturn]] void Become(const config::DaemonConfig& config, UniqueFd log,
                         UniqueFd starter) {
  ::setsid();
  // The working directory may be on a disk that is unmounted later.
  (void)::chdir("/");
  ::dup2(log.get(), STDOUT_FILENO);
  ::dup2(log.get(), STDERR_FILENO);
  log.reset();
  const int code = RunDaemon(
      config, /*recovers=*/false, /*reread=*/nullptr,
      [&](const absl::Status& status) {
        const std::string message =
            status.ok() ? std::string(1, kReady) : std::string(Message(status));
        (void)!::write(starter.get(), message.data(), message.size());
        starter.reset();
      });
  ::exit(code);
}

// Returns the message of the daemon: empty once it is ready.
std::string Await(const UniqueFd& daemon, const std::string& log) {
  std::string message;
  char part[512];
  pollfd wait{daemon.get(), POLLIN, 0};
  const auto timeout = std::chrono::milliseconds(kStartMax).count();
  while (::poll(&wait, 1, static_cast<int>(timeout)) > 0) {
    const ssize_t bytes = ::read(daemon.get(), part, sizeof(part));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes > 0 && part[0] == kReady) return "";
    if (bytes <= 0) {
      return message.empty() ? "it ended without a message; see " + log
                             : message;
    }
    message.append(part, static_cast<size_t>(bytes));
  }
  return fmt::format("it has not started after {} s; see {}", kStartMax.count(),
                     log);
}

}  // namespace

absl::Status MakePersonalSocketDir(const std::string& path) {
  if (::mkdir(path.c_str(), kPersonalFolderMode) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "make the folder of the sockets, " + path);
  }
  const std::string problem = endpoint::CheckSocketDir(path, ::geteuid());
  if (!problem.empty()) return absl::FailedPreconditionError(problem);
  // An earlier daemon may have been started with other permissions.
  if (::chmod(path.c_str(), kPersonalFolderMode) != 0) {
    return ErrnoStatus(errno, "change the permissions of " + path);
  }
  return absl::OkStatus();
}

int StartPersonal(const config::DaemonConfig& config,
                  const config::PersonalFiles& files) {
  ::umask(kPersonalUmask);
  CloseInheritedFiles();
  if (absl::Status made = MakePersonalSocketDir(config.socket_dir);
      !made.ok()) {
    return Fail(Message(made));
  }
  const absl::StatusOr<UniqueFd> lock = OpenLock(config.socket_dir);
  if (!lock.ok()) return Fail(Message(lock.status()));
  const absl::StatusOr<bool> is_ours = LockOrFind(*lock, config.socket_dir);
  if (!is_ours.ok()) return Fail(Message(is_ours.status()));
  if (!*is_ours) {
    fmt::print("{}", Print(config.socket_dir));
    return EXIT_SUCCESS;
  }
  if (!config.start_on_demand) {
    return Fail("start_on_demand is false in " +
                fmt::format("{}", fmt::join(files.config_files, " or ")));
  }
  if (absl::Status made = MakeStateDir(files.state_dir); !made.ok()) {
    return Fail(WithAdvice(std::string(Message(made)), files));
  }
  absl::StatusOr<UniqueFd> log = OpenLog(files.log());
  if (!log.ok()) {
    return Fail(WithAdvice(std::string(Message(log.status())), files));
  }
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return Fail("cannot make a pipe");
  UniqueFd from(ends[0]);
  UniqueFd to(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return Fail("cannot start a process");
  if (child == 0) {
    from.reset();
    Become(config, *std::move(log), std::move(to));
  }
  to.reset();
  const std::string problem = Await(from, files.log());
  if (!problem.empty()) return Fail(WithAdvice(problem, files));
  NoteRunning(files, config.socket_dir);
  fmt::print("{}", Print(config.socket_dir));
  return EXIT_SUCCESS;
}

}  // namespace msitd::server
