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

// A call that was made or refused.
struct AuditEntry {
  std::chrono::system_clock::time_point time;
  Caller caller;
  std::string peer;         // As the transport names it.
  std::string_view method;  // Must have static lifetime.
  std::string target;       // A run or a comparison; may be empty.
  absl::Status status;
};

// Maximum number of bytes of a target in a line; longer targets are truncated.
inline constexpr size_t kAuditTargetBytesMax = 512;

// Returns the entry as one line: a JSON object and a line end.
std::string ToLine(const AuditEntry& entry);

// A file with one line per entry, in the order of the calls to Add. After the
// file is moved away or deleted, a new file is created within kLookInterval.
// Lines are written asynchronously on a separate thread, so callers never wait
// for the disk. Thread-safe.
class AuditLog {
 public:
  static constexpr std::chrono::seconds kLookInterval{1};
  // Limits of the queue. Lines that do not fit are dropped; the file records
  // how many were dropped.
  static constexpr size_t kLinesMax = 65'536;
  static constexpr size_t kWaitingBytesMax = size_t{16} << 20;

  // Appends to the file at `path`, or creates it with read and write permission
  // for the owner only. Does not follow a symbolic link at `path`.
  //
  // Errors: FAILED_PRECONDITION if `path` is neither a regular file nor a
  // character device, because a FIFO or a socket would block the daemon; errors
  // from opening the file.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(
      const std::string& path);

  // Writes all queued lines.
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void Add(const AuditEntry& entry);

  // Returns the number of lines that could not be written. The daemon's log
  // reports the first loss immediately and also when writing succeeds again.
  uint64_t lost_count();

 private:
  AuditLog(std::string path, UniqueFd file);

  void Run();
  // Reopens the file if its path now refers to another file or to none.
  void Look();
  bool Write(std::string_view lines);
  void ReportLoss(std::string_view problem);
  void ReportRecovery(uint64_t lost_count);

  const std::string path_;
  UniqueFd file_;            // Used only by the thread.
  bool is_whole_ = true;     // Likewise: the file ends with a line end.
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
