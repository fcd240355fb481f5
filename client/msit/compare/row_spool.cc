// SPDX-License-Identifier: Apache-2.0
#include "client/msit/compare/row_spool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

constexpr size_t kBufferBytes = size_t{1} << 20;
// Consecutive rows are read at once.
constexpr size_t kWindowBytes = size_t{16} << 10;

}  // namespace

absl::StatusOr<RowSpool> RowSpool::Make() {
  std::error_code error;
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path(error);
  if (error) return ErrnoStatus(error.value(), "find a temporary folder");
  std::string path = folder / "msit-rows-XXXXXX";
  UniqueFd file(::mkostemp(path.data(), O_CLOEXEC));
  if (!file.valid()) return ErrnoStatus(errno, path);
  ::unlink(path.c_str());
  return RowSpool(std::move(file));
}

absl::Status RowSpool::Add(Row row, std::string_view line) {
  if (rows_.size() == kReportRowsMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "a report has at most {} rows", kReportRowsMax);
  }
  row.begin = flushed_ + buffer_.size();
  row.bytes = static_cast<uint32_t>(line.size());
  rows_.push_back(std::move(row));
  buffer_ += line;
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status RowSpool::Flush() {
  size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t bytes =
        ::pwrite(file_.get(), buffer_.data() + done, buffer_.size() - done,
                 static_cast<off_t>(flushed_ + done));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return ErrnoStatus(errno, "keep rows of the report");
    done += static_cast<size_t>(bytes);
  }
  flushed_ += done;
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status RowSpool::Read(const Row& row, std::string& line) {
  if (row.begin >= flushed_) {
    line.assign(buffer_, row.begin - flushed_, row.bytes);
    return absl::OkStatus();
  }
  const bool is_in_window =
      row.begin >= window_begin_ &&
      row.begin + row.bytes <= window_begin_ + window_.size();
  if (!is_in_window) MSITD_RETURN_IF_ERROR(ReadWindow(row));
  line.assign(window_, row.begin - window_begin_, row.bytes);
  return absl::OkStatus();
}

absl::Status RowSpool::ReadWindow(const Row& row) {
  const uint64_t wanted = std::max<uint64_t>(row.bytes, kWindowBytes);
  window_begin_ = row.begin;
  window_.resize(std::min(wanted, flushed_ - row.begin));
  for (size_t done = 0; done < window_.size();) {
    const ssize_t bytes =
        ::pread(file_.get(), window_.data() + done, window_.size() - done,
                static_cast<off_t>(row.begin + done));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) {
      window_.clear();
      return ErrnoStatus(bytes < 0 ? errno : EIO, "read rows");
    }
    done += static_cast<size_t>(bytes);
  }
  return absl::OkStatus();
}

}  // namespace msitd::msit_command
