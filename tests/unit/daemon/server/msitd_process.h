// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "protos/os/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace msitd::server {

// The msitd binary as a child process. Its data and sockets are in a directory
// of the caller. The test acts as the service manager.
class MsitdProcess {
 public:
  // Starts msitd on `directory`. `flags` are added to the flags for the
  // directory.
  explicit MsitdProcess(const testing::TempDir& directory,
                        const std::vector<std::string>& flags = {});
  // Kills the process if it is still running.
  ~MsitdProcess();
  MsitdProcess(const MsitdProcess&) = delete;
  MsitdProcess& operator=(const MsitdProcess&) = delete;

  // Returns when the process has sent `state`, such as `READY=1`, to the
  // service manager. Returns false if the process exits before.
  bool AwaitNotice(const std::string& state);

  void Signal(int signal) const;

  // Waits for the process to exit. Returns the exit status, or minus the signal
  // that killed it.
  int Wait();

  // Returns the stderr output so far.
  std::string Log() const;

 private:
  const std::string log_path_;
  UniqueFd notify_;
  pid_t pid_ = -1;
};

}  // namespace msitd::server
