// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/daemon/server/msitd_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>

#include "protos/base/check.h"

namespace msitd::server {
namespace {

UniqueFd ListenForNotices(const std::string& path) {
  ::unlink(path.c_str());
  UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  MSITD_CHECK(path.size() < sizeof(address.sun_path));
  std::memcpy(address.sun_path, path.data(), path.size());
  MSITD_CHECK(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address),
                     sizeof(address)) == 0);
  return fd;
}

}  // namespace

MsitdProcess::MsitdProcess(const testing::TempDir& directory,
                           const std::vector<std::string>& flags)
    : log_path_(directory / "log"),
      notify_(ListenForNotices(directory / "notify")) {
  std::vector<std::string> args = {
      MSITD_BINARY, "--data-dir=" + (directory / "data"),
      "--socket-dir=" + (directory / "run"), "--listen=127.0.0.1:0",
      "--loopback-role=admin"};
  args.insert(args.end(), flags.begin(), flags.end());
  std::vector<char*> argv;
  for (std::string& arg : args) argv.push_back(arg.data());
  argv.push_back(nullptr);
  std::string notify = "NOTIFY_SOCKET=" + (directory / "notify");
  // In microseconds. Notifications are sent at half of this interval.
  std::string watchdog = "WATCHDOG_USEC=200000";
  char* const envp[] = {notify.data(), watchdog.data(), nullptr};
  const UniqueFd log(::open(log_path_.c_str(),
                            O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  pid_ = ::fork();
  MSITD_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    ::dup2(log.get(), STDERR_FILENO);
    ::execve(argv[0], argv.data(), envp);
    ::_exit(127);
  }
}

MsitdProcess::~MsitdProcess() {
  if (pid_ < 0) return;
  Signal(SIGKILL);
  Wait();
}

bool MsitdProcess::AwaitNotice(const std::string& state) {
  constexpr int kCheckIntervalMs = 100;
  char text[4096];
  while (true) {
    pollfd entry{notify_.get(), POLLIN, 0};
    if (::poll(&entry, 1, kCheckIntervalMs) > 0) {
      const ssize_t size = ::recv(notify_.get(), text, sizeof(text), 0);
      if (size > 0 &&
          std::string(text, size).find(state) != std::string::npos) {
        return true;
      }
    }
    siginfo_t info{};
    ::waitid(P_PID, pid_, &info, WEXITED | WNOHANG | WNOWAIT);
    if (info.si_pid == pid_) return false;
  }
}

void MsitdProcess::Signal(int signal) const { ::kill(pid_, signal); }

int MsitdProcess::Wait() {
  int status = 0;
  MSITD_CHECK(::waitpid(pid_, &status, 0) == pid_);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string MsitdProcess::Log() const {
  std::ifstream file(log_path_);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace msitd::server
