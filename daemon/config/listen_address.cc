// SPDX-License-Identifier: Apache-2.0
#include "daemon/config/listen_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <charconv>

#include "protos/status/status.h"

namespace msitd::config {
namespace {

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) {
    return (ntohl(v4.s_addr) >> 24) == 127;
  }
  in6_addr v6{};
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) {
    return IN6_IS_ADDR_LOOPBACK(&v6);
  }
  return host == "localhost";
}

}  // namespace

std::string ListenAddress::ToString() const {
  const bool is_ipv6 = host.find(':') != std::string::npos;
  return is_ipv6 ? fmt::format("[{}]:{}", host, port)
                 : fmt::format("{}:{}", host, port);
}

absl::StatusOr<ListenAddress> ParseListenAddress(std::string_view text) {
  const absl::Status invalid =
      MakeStatus(absl::StatusCode::kInvalidArgument,
                 "'{}' is not host:port or [ipv6]:port", text);
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return invalid;
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of(":[]/ ") != std::string_view::npos) {
    return invalid;
  }
  ListenAddress out;
  const auto [end, error] =
      std::from_chars(port.data(), port.data() + port.size(), out.port);
  if (host.empty() || error != std::errc{} ||
      end != port.data() + port.size()) {
    return invalid;
  }
  out.host = host;
  out.is_loopback = IsLoopback(out.host);
  out.is_plain_loopback =
      out.host == "127.0.0.1" || out.host == "::1" || out.host == "localhost";
  return out;
}

}  // namespace msitd::config
