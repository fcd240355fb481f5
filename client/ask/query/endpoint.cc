// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/endpoint.h"

#include <sys/stat.h>
#include <sys/un.h>

#include <charconv>
#include <utility>

#include "protos/status/status.h"

namespace msitd::ask {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr std::string_view kDns = "dns:///";
// The name that the daemon gives its socket in --socket-dir.
constexpr char kSocketName[] = "msitd.sock";
constexpr size_t kSocketPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

absl::Status BadEndpoint(std::string_view endpoint, std::string_view why) {
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "--endpoint \"{}\": {}; use HOST:PORT, unix:PATH or /PATH",
                    endpoint, why);
}

// The path in `unix:PATH` or `/PATH`.
std::string SocketPath(std::string_view endpoint) {
  if (endpoint.starts_with(kUnix)) endpoint.remove_prefix(kUnix.size());
  std::string path(endpoint);
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return path;
  return path + (path.ends_with('/') ? "" : "/") + kSocketName;
}

bool IsPort(std::string_view text) {
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && last == end && port >= 1 && port <= 65535;
}

}  // namespace

absl::StatusOr<std::string> ParseEndpoint(std::string_view endpoint) {
  if (endpoint.starts_with('/') || endpoint.starts_with(kUnix)) {
    const std::string path = SocketPath(endpoint);
    if (path.empty()) return BadEndpoint(endpoint, "no path");
    if (path.size() > kSocketPathBytesMax) {
      return BadEndpoint(
          endpoint,
          fmt::format("the path is longer than {} bytes", kSocketPathBytesMax));
    }
    return std::string(kUnix) + path;
  }
  if (endpoint.starts_with(kDns)) endpoint.remove_prefix(kDns.size());
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string_view::npos) return BadEndpoint(endpoint, "no port");
  const std::string_view host = endpoint.substr(0, colon);
  if (host.empty()) return BadEndpoint(endpoint, "no host");
  if (!IsPort(endpoint.substr(colon + 1))) {
    return BadEndpoint(endpoint, "the port is not in 1..65535");
  }
  const bool is_bracketed = host.front() == '[' && host.back() == ']';
  if (!is_bracketed && host.find_first_of(":/[]") != std::string_view::npos) {
    return BadEndpoint(endpoint, "the host is invalid");
  }
  return std::string(kDns) + std::string(endpoint);
}

std::string SocketFolder(std::string_view endpoint) {
  const std::string path = SocketPath(endpoint);
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

std::string StartCommand(std::string_view endpoint) {
  constexpr std::string_view kData = "msitd --data-dir DIR";
  if (endpoint.starts_with('/') || endpoint.starts_with(kUnix)) {
    return fmt::format("{} --socket-dir {}", kData, SocketFolder(endpoint));
  }
  const std::string_view host = endpoint.substr(0, endpoint.rfind(':'));
  const bool is_here =
      host == "localhost" || host == "[::1]" || host.starts_with("127.");
  // Without the role, no client could record there. The default socket
  // directory is that of the system service.
  return is_here ? fmt::format(
                       "{} --socket-dir DIR --listen {} "
                       "--loopback-role writer",
                       kData, endpoint)
                 : "";
}

}  // namespace msitd::ask
