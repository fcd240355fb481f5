// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/ask/query/interrupts.h"
#include "protos/os/unique_fd.h"

namespace msitd::ask {

// The time limit for a daemon to accept calls. It takes a third of a second on
// an idle machine. A machine with a hundred times the load is still waited for,
// because a daemon that ends is detected at once.
inline constexpr std::chrono::minutes kDaemonStartMax{5};

struct PrivateDaemonOptions {
  // The folder in which the store gets its own folder. Needs space for
  // everything that is recorded.
  std::string data_dir;
  // A different path for the store, which is kept after the daemon has ended,
  // and is durable. Created if it does not exist.
  std::string kept_store = {};
  // Empty: the result of FindMsitd.
  std::string program;
  std::chrono::milliseconds start_timeout = kDaemonStartMax;
};

// A daemon for one command that listens only on its own Unix socket. It ends
// with this object, or with the process if that is killed. Its socket and its
// store, unless that is to be kept, are removed; they remain if the process is
// killed. The space of a removed store is freed shortly afterwards.
// Thread-compatible.
class PrivateDaemon {
 public:
  // Returns once the daemon accepts calls. Must be called on the main thread,
  // because the daemon ends with the thread that started it. Errors: NOT_FOUND
  // if the program does not exist; FAILED_PRECONDITION with its last output if
  // it ends; DEADLINE_EXCEEDED if it is not ready in time; CANCELLED by an
  // interrupt.
  static absl::StatusOr<std::unique_ptr<PrivateDaemon>> Start(
      const PrivateDaemonOptions& options, Interrupts& interrupts);

  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;
  ~PrivateDaemon();

  // In the syntax of ParseEndpoint.
  std::string endpoint() const;
  pid_t pid() const { return pid_; }

 private:
  PrivateDaemon() = default;
  absl::Status MakeFolders(const PrivateDaemonOptions& options);
  absl::Status Spawn(const std::string& program);
  absl::Status WaitUntilReady(std::chrono::milliseconds timeout,
                              Interrupts& interrupts);
  // The end of its log, for an error.
  std::string LastWords() const;

  // Removed at the end.
  std::string data_dir_;
  std::string store_;
  bool keeps_store_ = false;
  std::string socket_dir_;
  UniqueFd ready_;
  pid_t pid_ = -1;
};

// Returns the path of msitd: next to this program, otherwise in $PATH. A
// NOT_FOUND error lists where it was searched for.
absl::StatusOr<std::string> FindMsitd();

}  // namespace msitd::ask
