// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/metrics_listener.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "daemon/config/listen_address.h"
#include "daemon/server/socket_file.h"
#include "protos/status/status.h"

namespace msitd::server {
namespace {

constexpr mode_t kMetricsSocketMode = 0660;
constexpr int kMetricsBacklog = 16;
constexpr int kMetricsSocketType = SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK;

absl::Status CannotListen(const std::string& address, int error) {
  return MakeStatus(absl::StatusCode::kUnavailable,
                    "cannot listen on metrics_listen '{}': {}", address,
                    Message(ErrnoStatus(error, "listen")));
}

absl::StatusOr<MetricsListener> ListenUnix(const std::string& path) {
  MSITD_RETURN_IF_ERROR(PrepareSocketFile(path, SOCK_STREAM));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  UniqueFd fd(::socket(AF_UNIX, kMetricsSocketType, 0));
  if (!fd.valid() ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address),
             sizeof(address)) != 0 ||
      ::chmod(path.c_str(), kMetricsSocketMode) != 0 ||
      ::listen(fd.get(), kMetricsBacklog) != 0) {
    return CannotListen(path, errno);
  }
  return MetricsListener{std::move(fd), "unix:" + path, path};
}

absl::StatusOr<MetricsListener> ListenTcp(const std::string& text,
                                          bool has_tls) {
  MSITD_ASSIGN_OR_RETURN(const config::ListenAddress where,
                         config::ParseListenAddress(text));
  const std::string host = where.host == "localhost" ? "127.0.0.1" : where.host;
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  const bool is_v4 = ::inet_pton(AF_INET, host.c_str(), &v4.sin_addr) == 1;
  if (!is_v4 && ::inet_pton(AF_INET6, host.c_str(), &v6.sin6_addr) != 1) {
    return CannotListen(text, EADDRNOTAVAIL);
  }
  v4.sin_family = AF_INET;
  v4.sin_port = htons(where.port);
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(where.port);
  auto* const address = is_v4 ? reinterpret_cast<sockaddr*>(&v4)
                              : reinterpret_cast<sockaddr*>(&v6);
  socklen_t length = is_v4 ? sizeof(v4) : sizeof(v6);
  UniqueFd fd(::socket(address->sa_family, kMetricsSocketType, 0));
  const int on = 1;
  if (!fd.valid() ||
      ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(fd.get(), address, length) != 0 ||
      ::listen(fd.get(), kMetricsBacklog) != 0 ||
      ::getsockname(fd.get(), address, &length) != 0) {
    return CannotListen(text, errno);
  }
  config::ListenAddress bound = where;
  bound.host = host;
  bound.port = ntohs(is_v4 ? v4.sin_port : v6.sin6_port);
  return MetricsListener{
      std::move(fd),
      fmt::format("{}://{}/metrics", has_tls ? "https" : "http",
                  bound.ToString()),
      ""};
}

}  // namespace

absl::StatusOr<MetricsListener> ListenForMetrics(const std::string& address,
                                                 bool has_tls) {
  return address.front() == '/' ? ListenUnix(address)
                                : ListenTcp(address, has_tls);
}

}  // namespace msitd::server
