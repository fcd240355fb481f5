// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/private_daemon.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "client/ask/query/child_command.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::ask {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kPollInterval{20};
constexpr size_t kLastWordsBytes = 2048;

absl::Status ErrnoStatus(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInternal, "{}: {}", what,
                    std::strerror(errno));
}

absl::StatusOr<std::string> MakeTempFolder(const std::string& parent) {
  std::string path = parent + "/.msitd-XXXXXX";
  if (::mkdtemp(path.data()) == nullptr) {
    return ErrnoStatus("cannot make a folder in " + parent);
  }
  return path;
}

// Between fork and exec, the child must not allocate memory.
[[noreturn]] void Become(char* const* arguments, char* const* environment,
                         int log, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGINT, SIG_DFL);
  ::signal(SIGTERM, SIG_DFL);
  const int null = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(null, STDIN_FILENO);
  ::dup2(log, STDOUT_FILENO);
  ::dup2(log, STDERR_FILENO);
  ::execve(arguments[0], arguments, environment);
  ::_exit(127);
}

// Returns false if the process has ended and was reaped.
bool StopProcess(pid_t pid) {
  ::kill(pid, SIGSTOP);
  int state = 0;
  while (::waitpid(pid, &state, WUNTRACED) < 0) {
    if (errno != EINTR) return false;
  }
  return WIFSTOPPED(state);
}

void Reap(pid_t pid) {
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool IsProgram(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0 &&
         !std::filesystem::is_directory(path);
}

}  // namespace

absl::StatusOr<std::string> FindMsitd() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::string beside = (self.parent_path() / "msitd").string();
  if (!error && IsProgram(beside)) return beside;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty()) continue;
    std::string program = folder + "/msitd";
    if (IsProgram(program)) return program;
  }
  return MakeStatus(absl::StatusCode::kNotFound,
                    "msitd was not found, neither at {} nor in PATH", beside);
}

absl::StatusOr<std::unique_ptr<PrivateDaemon>> PrivateDaemon::Start(
    const PrivateDaemonOptions& options, Interrupts& interrupts) {
  std::string program = options.program;
  if (program.empty()) {
    MSITD_ASSIGN_OR_RETURN(program, FindMsitd());
  }
  std::unique_ptr<PrivateDaemon> out(new PrivateDaemon());
  MSITD_RETURN_IF_ERROR(out->MakeFolders(options));
  MSITD_RETURN_IF_ERROR(out->Spawn(program));
  MSITD_RETURN_IF_ERROR(out->WaitUntilReady(options.start_timeout, interrupts));
  return out;
}

absl::Status PrivateDaemon::MakeFolders(const PrivateDaemonOptions& options) {
  keeps_store_ = !options.kept_store.empty();
  store_ = options.kept_store;
  if (!keeps_store_) {
    const std::string& parent = options.data_dir;
    MSITD_ASSIGN_OR_RETURN(data_dir_,
                           MakeTempFolder(parent.empty() ? "." : parent));
    store_ = data_dir_ + "/data";
  }
  // The path of a Unix socket has 107 bytes at most, so this one is short.
  MSITD_ASSIGN_OR_RETURN(socket_dir_, MakeTempFolder("/tmp"));

  const std::string path = socket_dir_ + "/ready";
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(path.begin(), path.end(), address.sun_path);
  ready_.reset(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!ready_.valid() ||
      ::bind(ready_.get(), reinterpret_cast<const sockaddr*>(&address),
             sizeof(address)) != 0) {
    return ErrnoStatus("cannot bind " + path);
  }
  return absl::OkStatus();
}

absl::Status PrivateDaemon::Spawn(const std::string& program) {
  const UniqueFd log(::open((socket_dir_ + "/log").c_str(),
                            O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600));
  if (!log.valid()) return ErrnoStatus("cannot write the log of a daemon");

  std::vector<std::string> arguments = {
      program,     "--data-dir", store_, "--socket-dir",
      socket_dir_, "--listen",   "none", "--log-level",
      "info",      "--nice",     "0",    "--ingest-nice",
      "0"};
  if (!keeps_store_) {
    // The store is removed with the daemon, and its user is waiting.
    arguments.insert(arguments.end(),
                     {"--durable", "false", "--share-equal-bytes", "false"});
  }
  std::vector<std::string> environment = {"NOTIFY_SOCKET=" + socket_dir_ +
                                          "/ready"};
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    // These belong to the service that contains this program, not to its
    // daemon.
    if (!text.starts_with("NOTIFY_SOCKET=") && !text.starts_with("WATCHDOG_") &&
        !text.starts_with("LISTEN_")) {
      environment.emplace_back(text);
    }
  }
  const std::vector<char*> argv = Pointers(arguments);
  const std::vector<char*> envp = Pointers(environment);
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ == 0) Become(argv.data(), envp.data(), log.get(), parent);
  if (pid_ < 0) return ErrnoStatus("cannot start " + program);
  return absl::OkStatus();
}

absl::Status PrivateDaemon::WaitUntilReady(milliseconds timeout,
                                           Interrupts& interrupts) {
  const Interrupts::Hold hold(interrupts);
  const auto deadline = Clock::now() + timeout;
  while (!interrupts.interrupted()) {
    pollfd wait{ready_.get(), POLLIN, 0};
    if (::poll(&wait, 1, static_cast<int>(kPollInterval.count())) > 0) {
      char said[256];
      const ssize_t bytes = ::recv(ready_.get(), said, sizeof(said), 0);
      const std::string_view text(
          said, static_cast<size_t>(std::max<ssize_t>(bytes, 0)));
      if (text.find("READY=1") != text.npos) return absl::OkStatus();
    }
    if (::waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = -1;
      return MakeStatus(absl::StatusCode::kFailedPrecondition,
                        "the private daemon exited immediately: {}",
                        LastWords());
    }
    if (Clock::now() > deadline) {
      return MakeStatus(absl::StatusCode::kDeadlineExceeded,
                        "the private daemon has not started after {} s: {}; "
                        "this machine, or the disk of {}, may be overloaded",
                        static_cast<double>(timeout.count()) / 1000,
                        LastWords(), store_);
    }
  }
  return MakeStatus(absl::StatusCode::kCancelled, "interrupted");
}

std::string PrivateDaemon::LastWords() const {
  std::ifstream log(socket_dir_ + "/log");
  std::string text((std::istreambuf_iterator<char>(log)), {});
  while (!text.empty() && text.back() == '\n') text.pop_back();
  if (text.empty()) return "its log is empty";
  const size_t line = text.rfind('\n');
  text.erase(0, line == text.npos ? 0 : line + 1);
  return text.substr(0, kLastWordsBytes);
}

PrivateDaemon::~PrivateDaemon() {
  if (keeps_store_ && pid_ > 0) {
    // Lets the daemon write its data.
    ::kill(pid_, SIGTERM);
    Reap(std::exchange(pid_, -1));
  }
  // The names of its files are removed first, while the daemon holds them open.
  // Their space is then freed when it ends, which is not waited for: this may
  // take the file system a third of a second for 2 GiB. The daemon is stopped
  // before, so that it creates no new files.
  if (pid_ > 0 && !StopProcess(pid_)) pid_ = -1;
  std::error_code ignored;
  for (const std::string& folder : {data_dir_, socket_dir_}) {
    if (!folder.empty()) std::filesystem::remove_all(folder, ignored);
  }
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  std::thread reaper = StartSpareThread("reaper", [pid = pid_] { Reap(pid); });
  if (reaper.joinable()) {
    reaper.detach();
  } else {
    Reap(pid_);
  }
}

std::string PrivateDaemon::endpoint() const {
  return "unix:" + socket_dir_ + "/msitd.sock";
}

}  // namespace msitd::ask
