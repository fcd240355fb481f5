// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "protos/os/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace msitd::server {

// The msitd binary as a child process, with data and sockets in a directory
// that the caller keeps; the test stands in for the service manager.
class MsitdProcess {
 public:
  // Starts it on `directory`; `flags` are added to those that place it there.
  explicit MsitdProcess(const testing::TempDir& directory,
                        const std::vector<std::string>& flags = {});
  // Kills it if it still runs.
  ~MsitdProcess();
  MsitdProcess(const MsitdProcess&) = delete;
  MsitdProcess& operator=(const MsitdProcess&) = delete;

  // Returns once the service manager was told `state`, such as `READY=1`;
  // false if the process ends before.
  bool AwaitNotice(const std::string& state);

  void Signal(int signal) const;

  // Waits for the end: the exit status, or minus the signal that killed it.
  int Wait();

  // What it wrote to stderr so far.
  std::string Log() const;

 private:
  const std::string log_path_;
  UniqueFd notify_;
  pid_t pid_ = -1;
};

}  // namespace msitd::server
