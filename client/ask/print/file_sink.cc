// SPDX-License-Identifier: Apache-2.0
#include "client/ask/print/file_sink.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

#include "protos/status/status.h"

namespace msitd::ask {
namespace {

constexpr mode_t kMode = 0666;

// Returns the target of a symbolic link, because renaming over a link would
// replace the link.
std::string BehindLinks(const std::string& path) {
  std::error_code error;
  const auto target = std::filesystem::canonical(path, error);
  return error ? path : target.string();
}

}  // namespace

absl::StatusOr<FileSink> FileSink::Open(const std::string& path,
                                        bool stdout_is_terminal) {
  if (path == "-") {
    if (stdout_is_terminal) {
      return absl::FailedPreconditionError(
          "refusing to write the bytes of a tensor to a terminal; use --out "
          "FILE");
    }
    const int fd = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) return ErrnoStatus(errno, "stdout");
    return FileSink("stdout", "", UniqueFd(fd));
  }
  const std::string target = BehindLinks(path);
  std::error_code ignored;
  const auto type = std::filesystem::status(target, ignored).type();
  const bool is_direct = type != std::filesystem::file_type::not_found &&
                         type != std::filesystem::file_type::regular;
  if (is_direct) {
    UniqueFd fd(open(target.c_str(), O_WRONLY | O_CLOEXEC));
    if (!fd.valid()) return ErrnoStatus(errno, "open " + path);
    return FileSink(target, "", std::move(fd));
  }
  const std::string partial = fmt::format("{}.partial.{}", target, getpid());
  UniqueFd fd(
      open(partial.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  if (!fd.valid()) {
    const int error = errno;
    const std::string folder = std::filesystem::path(target).parent_path();
    return error == ENOENT && !folder.empty()
               ? ErrnoStatus(error, "folder " + folder)
               : ErrnoStatus(error, "create " + path);
  }
  return FileSink(target, partial, std::move(fd));
}

FileSink::FileSink(std::string path, std::string partial, UniqueFd fd)
    : path_(std::move(path)),
      partial_(std::move(partial)),
      fd_(std::move(fd)) {}

FileSink::~FileSink() {
  if (fd_.valid() && !partial_.empty()) unlink(partial_.c_str());
}

absl::Status FileSink::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_.get(), bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return ErrnoStatus(errno, "write " + path_);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

absl::Status FileSink::Commit() {
  const int fd = fd_.release();
  // Some file systems report a full disk only here.
  const bool is_closed = close(fd) == 0;
  const int error = errno;
  if (partial_.empty()) {
    return is_closed ? absl::OkStatus() : ErrnoStatus(error, "close " + path_);
  }
  if (is_closed && std::rename(partial_.c_str(), path_.c_str()) == 0) {
    return absl::OkStatus();
  }
  const int final_error = is_closed ? errno : error;
  unlink(partial_.c_str());
  return ErrnoStatus(final_error, "write " + path_);
}

}  // namespace msitd::ask
