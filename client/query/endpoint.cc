// SPDX-License-Identifier: Apache-2.0
#include "client/query/endpoint.h"

#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cmath>

#include "protos/status/status.h"

namespace msitd::ctl {
namespace {

constexpr std::string_view kUnix = "unix:";
constexpr size_t kSocketPathBytesMax = sizeof(sockaddr_un::sun_path) - 1;

absl::Status BadEndpoint(std::string_view endpoint, std::string_view why) {
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "--endpoint \"{}\": {}; it is HOST:PORT or unix:PATH",
                    endpoint, why);
}

bool IsPort(std::string_view text) {
  int port = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, port);
  return error == std::errc() && last == end && port >= 1 && port <= 65535;
}

}  // namespace

std::string DefaultEndpoint() {
  return access(kDefaultSocket, F_OK) == 0 ? std::string(kUnix) + kDefaultSocket
                                           : kDefaultAddress;
}

absl::StatusOr<std::string> ParseEndpoint(std::string_view endpoint) {
  if (endpoint.starts_with(kUnix)) {
    const std::string_view path = endpoint.substr(kUnix.size());
    if (path.empty()) return BadEndpoint(endpoint, "no path");
    if (path.size() > kSocketPathBytesMax) {
      return BadEndpoint(
          endpoint, fmt::format("a path over {} bytes", kSocketPathBytesMax));
    }
    return std::string(endpoint);
  }
  const size_t colon = endpoint.rfind(':');
  if (colon == std::string_view::npos) return BadEndpoint(endpoint, "no port");
  const std::string_view host = endpoint.substr(0, colon);
  if (host.empty()) return BadEndpoint(endpoint, "no host");
  if (!IsPort(endpoint.substr(colon + 1))) {
    return BadEndpoint(endpoint, "the port is not 1 to 65535");
  }
  const bool is_bracketed = host.front() == '[' && host.back() == ']';
  if (!is_bracketed && host.find_first_of(":/[]") != std::string_view::npos) {
    return BadEndpoint(endpoint, "the host is none");
  }
  return "dns:///" + std::string(endpoint);
}

absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(last, static_cast<size_t>(end - last));
  double scale_ms = 0;
  if (unit == "ms") scale_ms = 1;
  if (unit == "s" || unit.empty()) scale_ms = 1000;
  if (unit == "m") scale_ms = 60e3;
  if (unit == "h") scale_ms = 3600e3;
  constexpr double kYearMs = 366 * 24 * 3600e3;
  const double ms = number * scale_ms;
  if (error != std::errc() || !std::isfinite(ms) || ms < 1 || ms > kYearMs) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "\"{}\" is no duration such as 500ms, 30s, 2m or 1h",
                      text);
  }
  return std::chrono::milliseconds(static_cast<int64_t>(ms));
}

}  // namespace msitd::ctl
