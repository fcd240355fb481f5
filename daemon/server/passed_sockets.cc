// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/passed_sockets.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace msitd::server {
namespace {

// Returns the end of the range of passed descriptors. Evaluated only once,
// because sd_listen_fds returns none of them after one of them is closed.
int EndOfPassed() {
  static const int end = SD_LISTEN_FDS_START +
                         std::max(::sd_listen_fds(/*unset_environment=*/0), 0);
  return end;
}

// Returns the path of a Unix socket; empty for any other file.
std::string PathOf(int fd) {
  sockaddr_un address{};
  socklen_t length = sizeof(address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      address.sun_family != AF_UNIX ||
      length <= offsetof(sockaddr_un, sun_path)) {
    return "";
  }
  const size_t size = length - offsetof(sockaddr_un, sun_path);
  return {address.sun_path, ::strnlen(address.sun_path, size)};
}

}  // namespace

UniqueFd TakePassedSocket(const std::string& path, int socket_type) {
  for (int fd = SD_LISTEN_FDS_START; fd < EndOfPassed(); ++fd) {
    if (::sd_is_socket_unix(fd, socket_type, /*listening=*/1, path.c_str(),
                            /*length=*/0) <= 0) {
      continue;
    }
    UniqueFd out(fd);
    const int flags = ::fcntl(fd, F_GETFL);
    if (flags < 0 || ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) return {};
    return out;
  }
  return {};
}

std::vector<std::string> CloseForeignSockets(
    std::span<const std::string> paths) {
  std::vector<std::string> out;
  for (int fd = SD_LISTEN_FDS_START; fd < EndOfPassed(); ++fd) {
    const std::string path = PathOf(fd);
    if (std::find(paths.begin(), paths.end(), path) != paths.end()) continue;
    out.push_back(fmt::format("fd:{},path:{}", fd, path.empty() ? "-" : path));
    ::close(fd);
  }
  return out;
}

}  // namespace msitd::server
