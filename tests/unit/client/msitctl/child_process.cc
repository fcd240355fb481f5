// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/client/msitctl/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <spawn.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <string_view>

#include "protos/base/check.h"
#include "protos/os/unique_fd.h"

namespace msitd::msitctl {
namespace {

struct Channel {
  UniqueFd ours;
  UniqueFd theirs;
};

Channel MakeTerminal(unsigned short columns) {
  winsize size = {};
  size.ws_col = columns;
  size.ws_row = 24;
  termios raw = {};
  cfmakeraw(&raw);
  int ours = -1;
  int theirs = -1;
  MSITD_CHECK(openpty(&ours, &theirs, nullptr, &raw, &size) == 0);
  fcntl(ours, F_SETFD, FD_CLOEXEC);
  fcntl(theirs, F_SETFD, FD_CLOEXEC);
  return {UniqueFd(ours), UniqueFd(theirs)};
}

Channel MakePipe(bool ours_reads) {
  int fds[2];
  MSITD_CHECK(pipe2(fds, O_CLOEXEC) == 0);
  return {UniqueFd(fds[ours_reads ? 0 : 1]), UniqueFd(fds[ours_reads ? 1 : 0])};
}

std::vector<std::string> MakeEnvironment(const ChildOptions& options) {
  std::vector<std::string> out;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    if (!text.starts_with("MSITCTL_") && !text.starts_with("NO_COLOR")) {
      out.emplace_back(text);
    }
  }
  for (const auto& [name, value] : options.environment) {
    out.push_back(name + "=" + value);
  }
  return out;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

// Reads both descriptors to their ends. A terminal whose child has exited
// returns an error instead of an end.
void ReadBoth(int out_fd, int err_fd, ChildResult& result) {
  pollfd fds[] = {{out_fd, POLLIN, 0}, {err_fd, POLLIN, 0}};
  std::string* texts[] = {&result.out, &result.err};
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    if (poll(fds, 2, -1) < 0) continue;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char buffer[65536];
      const ssize_t size = read(fds[i].fd, buffer, sizeof(buffer));
      if (size > 0) {
        texts[i]->append(buffer, static_cast<size_t>(size));
      } else {
        fds[i].fd = -1;
      }
    }
  }
}

}  // namespace

ChildResult RunMsitctl(const ChildOptions& options) {
  Channel in = options.stdin_is_terminal ? MakeTerminal(options.columns)
                                         : MakePipe(false);
  Channel out = options.stdout_is_terminal ? MakeTerminal(options.columns)
                                           : MakePipe(true);
  Channel err = options.stderr_is_terminal ? MakeTerminal(options.columns)
                                           : MakePipe(true);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in.theirs.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out.theirs.get(), STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err.theirs.get(), STDERR_FILENO);
  if (!options.stdout_path.empty()) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO,
                                     options.stdout_path.c_str(), O_WRONLY, 0);
  }
  std::vector<std::string> arguments = {MSITCTL_BINARY};
  arguments.insert(arguments.end(), options.arguments.begin(),
                   options.arguments.end());
  std::vector<std::string> environment = MakeEnvironment(options);
  pid_t pid = -1;
  MSITD_CHECK(posix_spawn(&pid, MSITCTL_BINARY, &actions, nullptr,
                          Pointers(arguments).data(),
                          Pointers(environment).data()) == 0);
  posix_spawn_file_actions_destroy(&actions);
  in.theirs.reset();
  out.theirs.reset();
  err.theirs.reset();
  MSITD_CHECK(
      ::write(in.ours.get(), options.input.data(), options.input.size()) ==
      static_cast<ssize_t>(options.input.size()));
  if (!options.stdin_is_terminal) in.ours.reset();
  if (options.meanwhile) options.meanwhile(pid);
  ChildResult result;
  ReadBoth(out.ours.get(), err.ours.get(), result);
  int status = 0;
  MSITD_CHECK(waitpid(pid, &status, 0) == pid);
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  return result;
}

}  // namespace msitd::msitctl
