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

// How long a daemon may take until it takes calls. It takes a third of a second
// on an idle machine; one with a hundred times the work is still waited for,
// since one that ends is known at once.
inline constexpr std::chrono::minutes kDaemonStartMax{5};

struct PrivateDaemonOptions {
  // The folder in which the store gets a folder of its own, with room for all
  // that is recorded.
  std::string data_dir;
  // Where its store is instead, which stays when the daemon has ended, and
  // outlives the machine. It is made if it is not there.
  std::string kept_store = {};
  // Empty: what FindMsitd finds.
  std::string program;
  std::chrono::milliseconds start_timeout = kDaemonStartMax;
};

// A daemon for one command: it listens on a Unix socket of its own alone. It
// ends with this object, or with the process if that is killed. Its store, if
// that is not to be kept, and its socket are removed, unless the process is
// killed: then they stay. The room of a removed store is free shortly after.
// Thread-compatible.
class PrivateDaemon {
 public:
  // Returns once it takes calls. Call it on the main thread, since the daemon
  // ends with the thread that started it. NOT_FOUND if there is no such
  // program; FAILED_PRECONDITION with what it said last if it ends;
  // DEADLINE_EXCEEDED if it is not ready in time; CANCELLED by an interrupt.
  static absl::StatusOr<std::unique_ptr<PrivateDaemon>> Start(
      const PrivateDaemonOptions& options, Interrupts& interrupts);

  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;
  ~PrivateDaemon();

  // As ParseEndpoint takes it.
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

// Returns the path of msitd: beside this program, else in $PATH. NOT_FOUND
// says where it was looked for.
absl::StatusOr<std::string> FindMsitd();

}  // namespace msitd::ask
