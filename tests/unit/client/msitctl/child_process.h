// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace msitd::msitctl {

// One run of msitctl.
struct ChildOptions {
  std::vector<std::string> arguments = {};
  // Variables added to those of this process, without MSITCTL_… and NO_COLOR.
  std::map<std::string, std::string> environment = {};
  // Content of stdin.
  std::string input = {};
  // Which descriptors are terminals. Each gets a terminal of its own, `columns`
  // wide.
  bool stdin_is_terminal = false;
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  unsigned short columns = 80;
  // A file in place of stdout. The result then has no output.
  std::string stdout_path = {};
  // Called in this thread while the child runs, before its output is read.
  std::function<void(pid_t)> meanwhile = {};
};

struct ChildResult {
  int exit_code = -1;  // -1 if a signal ended it.
  std::string out;
  std::string err;
};

// Runs MSITCTL_BINARY to its end.
ChildResult RunMsitctl(const ChildOptions& options);

}  // namespace msitd::msitctl
