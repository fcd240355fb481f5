// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "protos/os/unique_fd.h"
#include "tests/support/temp_dir.h"

namespace msitd::server {

// The msitd binary as a child process. Its data and sockets lie in a directory
// of the caller. The test acts as the service manager.
class MsitdProcess {
 public:
  // Starts it on `directory`, with `flags` in addition to those that say so.
  explicit MsitdProcess(const testing::TempDir& directory,
                        const std::vector<std::string>& flags = {});
  // Kills it if it still runs.
  ~MsitdProcess();
  MsitdProcess(const MsitdProcess&) = delete;
  MsitdProcess& operator=(const MsitdProcess&) = delete;

  // Returns once it has told the service manager `state`, such as `READY=1`.
  // False if the process ends before.
  bool AwaitNotice(const std::string& state);

  void Signal(int signal) const;

  // Waits for its end. Returns the exit status, or minus the signal that killed
  // it.
  int Wait();

  // What it wrote to stderr so far.
  std::string Log() const;

 private:
  const std::string log_path_;
  UniqueFd notify_;
  pid_t pid_ = -1;
};

}  // namespace msitd::server
