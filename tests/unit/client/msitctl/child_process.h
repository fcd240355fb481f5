// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace msitd::msitctl {

// Options of one run of msitctl.
struct ChildOptions {
  std::vector<std::string> arguments = {};
  // Environment variables to add to those of this process. MSITCTL_… and
  // NO_COLOR are not inherited.
  std::map<std::string, std::string> environment = {};
  // The content of stdin.
  std::string input = {};
  // Which descriptors are terminals. Each of them is a separate terminal with
  // `columns` columns.
  bool stdin_is_terminal = false;
  bool stdout_is_terminal = false;
  bool stderr_is_terminal = false;
  unsigned short columns = 80;
  // A file to which stdout is written. The result then has no output.
  std::string stdout_path = {};
  // Called in this thread while the child runs, before its output is read.
  std::function<void(pid_t)> meanwhile = {};
};

struct ChildResult {
  int exit_code = -1;  // -1 if a signal ended the child.
  std::string out;
  std::string err;
};

// Runs MSITCTL_BINARY and waits until it exits.
ChildResult RunMsitctl(const ChildOptions& options);

}  // namespace msitd::msitctl
