// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "daemon/log/json_line.h"
#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::access {
namespace {

constexpr mode_t kMode = 0600;

// O_NONBLOCK is needed because opening a FIFO without a reader would block
// startup. Character devices are allowed for /dev/null and terminals.
absl::StatusOr<UniqueFd> OpenFile(const std::string& path) {
  UniqueFd fd(::open(path.c_str(),
                     O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW |
                         O_NONBLOCK | O_NOCTTY,
                     kMode));
  if (!fd.valid() && errno != ENXIO) return ErrnoStatus(errno, "open " + path);
  struct stat info {};
  if (fd.valid() && ::fstat(fd.get(), &info) != 0) {
    return ErrnoStatus(errno, "stat " + path);
  }
  if (!fd.valid() || (!S_ISREG(info.st_mode) && !S_ISCHR(info.st_mode))) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "audit_file {} is not a regular file", path);
  }
  return fd;
}

bool IsAt(int fd, const std::string& path) {
  struct stat open {};
  struct stat named {};
  return ::fstat(fd, &open) == 0 && ::lstat(path.c_str(), &named) == 0 &&
         open.st_ino == named.st_ino && open.st_dev == named.st_dev;
}

}  // namespace

std::string ToLine(const AuditEntry& entry) {
  nlohmann::ordered_json line = {
      {"time", log::TimeText(entry.time)},
      {"caller", entry.caller.name},
      {"role", RoleName(entry.caller.role)},
      {"peer", entry.peer},
      {"method", entry.method},
      {"target", entry.target.substr(0, kAuditTargetBytesMax)},
      {"code", absl::StatusCodeToString(entry.status.code())}};
  if (!entry.status.ok()) line["reason"] = Reason(entry.status);
  return line.dump(-1, ' ', false,
                   nlohmann::ordered_json::error_handler_t::replace) +
         "\n";
}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(
    const std::string& path) {
  MSITD_ASSIGN_OR_RETURN(UniqueFd file, OpenFile(path));
  return std::unique_ptr<AuditLog>(new AuditLog(path, std::move(file)));
}

AuditLog::AuditLog(std::string path, UniqueFd file)
    : path_(std::move(path)), file_(std::move(file)) {
  thread_ = StartThread("audit", [this] { Run(); });
}

AuditLog::~AuditLog() {
  {
    MutexLock lock(mu_);
    is_stopping_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void AuditLog::Add(const AuditEntry& entry) {
  std::string line = ToLine(entry);
  {
    MutexLock lock(mu_);
    if (lines_.size() < kLinesMax &&
        waiting_bytes_ + line.size() <= kWaitingBytesMax) {
      waiting_bytes_ += line.size();
      lines_.push_back(std::move(line));
      line.clear();
    } else {
      ++lost_count_;
    }
  }
  if (!line.empty()) return ReportLoss("too many lines wait");
  changed_.NotifyAll();
}

uint64_t AuditLog::lost_count() {
  MutexLock lock(mu_);
  return lost_count_;
}

void AuditLog::ReportLoss(std::string_view problem) {
  if (const auto suppressed = log_limiter_.Admit()) {
    log::Get("access")->error(
        "audit lines are lost file='{}' error='{}' suppressed={}", path_,
        problem, *suppressed);
  }
}

void AuditLog::ReportRecovery(uint64_t lost_count) {
  log::Get("access")->info("audit lines are written again file='{}' lost={}",
                           path_, lost_count);
}

void AuditLog::Look() {
  if (file_.valid() && IsAt(file_.get(), path_)) return;
  absl::StatusOr<UniqueFd> file = OpenFile(path_);
  if (!file.ok()) return ReportLoss(Message(file.status()));
  file_ = *std::move(file);
  is_whole_ = true;
}

bool AuditLog::Write(std::string_view lines) {
  // If a full disk truncated the previous line, terminate that line first.
  const std::string text = (is_whole_ ? "" : "\n") + std::string(lines);
  std::string_view left = text;
  while (!left.empty()) {
    const ssize_t count = ::write(file_.get(), left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      const int error = count < 0 ? errno : ENOSPC;
      ReportLoss(Message(ErrnoStatus(error, "write audit lines")));
      return false;
    }
    left.remove_prefix(static_cast<size_t>(count));
    is_whole_ = left.empty();
  }
  return true;
}

void AuditLog::Run() {
  uint64_t told_count = 0;
  auto look_time = std::chrono::steady_clock::now() + kLookInterval;
  while (true) {
    std::deque<std::string> lines;
    uint64_t lost_count = 0;
    {
      MutexLock lock(mu_);
      while (lines_.empty() && !is_stopping_) changed_.Wait(mu_);
      if (lines_.empty()) return;
      lines.swap(lines_);
      waiting_bytes_ = 0;
      lost_count = lost_count_;
    }
    if (const auto now = std::chrono::steady_clock::now(); now >= look_time) {
      Look();
      look_time = now + kLookInterval;
    }
    std::string text;
    for (const std::string& line : lines) text += line;
    if (lost_count > told_count) {
      text += nlohmann::json(
                  {{"time", log::TimeText(std::chrono::system_clock::now())},
                   {"lost", lost_count - told_count}})
                  .dump() +
              "\n";
    }
    if (Write(text)) {
      if (std::exchange(has_failed_, false)) {
        ReportRecovery(lost_count - told_count);
      }
      told_count = lost_count;
    } else {
      has_failed_ = true;
      MutexLock lock(mu_);
      lost_count_ += lines.size();
    }
  }
}

}  // namespace msitd::access
