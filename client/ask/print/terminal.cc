// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

namespace msitd::ask {
namespace {

size_t WidthOf(int fd) {
  winsize size = {};
  return ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

}  // namespace

Terminal Terminal::Detect() {
  Terminal terminal;
  terminal.stdin_is_terminal = isatty(STDIN_FILENO) == 1;
  terminal.stdout_is_terminal = isatty(STDOUT_FILENO) == 1;
  terminal.stderr_is_terminal = isatty(STDERR_FILENO) == 1;
  if (terminal.stdout_is_terminal) {
    terminal.stdout_width = WidthOf(STDOUT_FILENO);
  }
  if (terminal.stderr_is_terminal) {
    terminal.stderr_width = WidthOf(STDERR_FILENO);
  }
  return terminal;
}

}  // namespace msitd::ask
