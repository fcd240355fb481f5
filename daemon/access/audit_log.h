// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/access/caller.h"
#include "daemon/log/log.h"
#include "protos/os/unique_fd.h"
#include "protos/status/mutex.h"

namespace msitd::access {

// What somebody did, or was refused.
struct AuditEntry {
  std::chrono::system_clock::time_point time;
  Caller caller;
  std::string peer;         // As the transport names it.
  std::string_view method;  // Lives as long as the program.
  std::string target;       // A run or a comparison; empty for none.
  absl::Status status;
};

// Bytes of a target that a line has; the rest is cut off.
inline constexpr size_t kAuditTargetBytesMax = 512;

// Returns a line: an object of JSON, and its end.
std::string ToLine(const AuditEntry& entry);

// A file with one line for each entry, in the order in which they came. Whoever
// moves the file away gets a new one within kLookInterval. Written on a thread
// of its own, so that no caller waits for the disk. Thread-safe.
class AuditLog {
 public:
  static constexpr std::chrono::seconds kLookInterval{1};
  // Lines that may wait. Those that find no place are counted, and the file
  // says how many they were.
  static constexpr size_t kLinesMax = 65'536;
  static constexpr size_t kWaitingBytesMax = size_t{16} << 20;

  // Appends to the file at `path`, or makes one that the owner may read and
  // write, and the group may read. Does not follow a link at its name.
  //
  // Errors: FAILED_PRECONDITION if it is neither a regular file nor a character
  // device: a FIFO or a socket would block the daemon; those of opening it.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(
      const std::string& path);

  // Writes what waits.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void Add(const AuditEntry& entry);

  // Lines that could not be written. The log of the daemon reports the first
  // loss at once, and when lines are written again.
  uint64_t lost_count();

 private:
  AuditLog(std::string path, UniqueFd file);

  void Run();
  // Opens the file anew if another one, or none, has its name.
  void Look();
  bool Write(std::string_view lines);
  void ReportLoss(std::string_view problem);
  void ReportRecovery(uint64_t lost_count);

  const std::string path_;
  UniqueFd file_;            // Used by the thread alone.
  bool is_whole_ = true;     // Likewise: the file ends with the end of a line.
  bool has_failed_ = false;  // Likewise: the last write failed.
  log::Limiter log_limiter_;

  Mutex mu_;
  CondVar changed_;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mu_);
  size_t waiting_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t lost_count_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace msitd::access
