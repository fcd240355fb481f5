// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/socket_file.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "protos/os/unique_fd.h"
#include "protos/status/status.h"

namespace msitd::server {
namespace {

constexpr mode_t kDirectoryMode = 0750;
constexpr mode_t kFileMode = 0640;

absl::Status CheckNobodyListens(const std::string& path, int type) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "'{}' is too long for a socket", path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  const UniqueFd fd(::socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return ErrnoStatus(errno, "socket");
  const int result = ::connect(
      fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (result == 0 || errno == EAGAIN || errno == EINPROGRESS) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "another process listens on {}", path);
  }
  if (errno != ECONNREFUSED && errno != ENOENT) {
    return ErrnoStatus(errno, "connect to " + path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status PrepareSocketFile(const std::string& path, int socket_type) {
  const std::string directory = path.substr(0, path.rfind('/'));
  if (::mkdir(directory.c_str(), kDirectoryMode) != 0 && errno != EEXIST) {
    return ErrnoStatus(errno, "mkdir " + directory);
  }
  struct stat info {};
  if (::lstat(path.c_str(), &info) != 0) {
    if (errno == ENOENT) return absl::OkStatus();
    return ErrnoStatus(errno, "stat " + path);
  }
  if (!S_ISSOCK(info.st_mode)) {
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "{} exists and is no socket", path);
  }
  MSITD_RETURN_IF_ERROR(CheckNobodyListens(path, socket_type));
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "unlink " + path);
  }
  return absl::OkStatus();
}

absl::Status ReplaceFile(const std::string& path, const std::string& text) {
  const std::string next = path + ".next";
  // Removes a file left by an earlier process, or a link created by another
  // user.
  if (::unlink(next.c_str()) != 0 && errno != ENOENT) {
    return ErrnoStatus(errno, "unlink " + next);
  }
  const UniqueFd fd(::open(next.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
                           kFileMode));
  if (!fd.valid()) return ErrnoStatus(errno, "open " + next);
  const ssize_t written = ::write(fd.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) {
    return ErrnoStatus(written < 0 ? errno : ENOSPC, "write " + next);
  }
  if (::rename(next.c_str(), path.c_str()) != 0) {
    return ErrnoStatus(errno, "rename " + next);
  }
  return absl::OkStatus();
}

}  // namespace msitd::server
