// SPDX-License-Identifier: Apache-2.0
#include "client/web/request_guard.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "protos/base/check.h"

namespace msitd::web {
namespace {

constexpr std::string_view kBearer = "Bearer ";
constexpr size_t kTokenBytes = 16;

std::string Lower(std::string_view text) {
  std::string out(text);
  absl::AsciiStrToLower(&out);
  return out;
}

// Returns the host in lower case without its port. `[::1]:80` has the host
// `[::1]`.
std::string HostWithoutPort(std::string_view host) {
  const size_t bracket = host.rfind(']');
  const size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos &&
                        (bracket == std::string_view::npos || colon > bracket);
  return Lower(host.substr(0, has_port ? colon : host.size()));
}

// Takes the same time for all texts of one length.
bool AreEqual(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  }
  return difference == 0;
}

bool IsSameOrigin(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme) &&
        Lower(origin.substr(scheme.size())) == Lower(host)) {
      return true;
    }
  }
  return false;
}

}  // namespace

RequestGuard::RequestGuard(std::string token, std::vector<std::string> hosts)
    : token_(std::move(token)), hosts_(std::move(hosts)) {
  MSITD_CHECK(!token_.empty());
  for (std::string& host : hosts_) absl::AsciiStrToLower(&host);
  for (const char* own : {"127.0.0.1", "localhost", "[::1]"}) {
    hosts_.emplace_back(own);
  }
}

bool RequestGuard::IsOurHost(std::string_view host) const {
  return std::find(hosts_.begin(), hosts_.end(), HostWithoutPort(host)) !=
         hosts_.end();
}

std::optional<Refusal> RequestGuard::CheckPage(
    const HttpRequest& request) const {
  if (!IsOurHost(request.host)) {
    return Refusal{421, "the host is not one of this server"};
  }
  if (request.method != "GET") return Refusal{405, "use GET"};
  return std::nullopt;
}

std::optional<Refusal> RequestGuard::CheckCall(
    const HttpRequest& request) const {
  if (!IsOurHost(request.host)) {
    return Refusal{421, "the host is not one of this server"};
  }
  if (request.method != "POST") return Refusal{405, "use POST"};
  // Browsers send at least one of the two with each POST. Other programs send
  // neither.
  const bool is_of_other_page =
      (!request.origin.empty() &&
       !IsSameOrigin(request.origin, request.host)) ||
      (!request.fetch_site.empty() && request.fetch_site != "same-origin");
  if (is_of_other_page) return Refusal{403, "the request is from another page"};
  const std::string_view given = request.authorization;
  if (!given.starts_with(kBearer) ||
      !AreEqual(given.substr(kBearer.size()), token_)) {
    return Refusal{401,
                   "the token is missing or wrong: open the address that "
                   "msitctl web printed"};
  }
  if (request.content_type != "application/json") {
    return Refusal{415, "the content type is not application/json"};
  }
  return std::nullopt;
}

std::string NewToken() {
  std::array<uint8_t, kTokenBytes> bytes{};
  // At most 256 bytes are returned completely once the kernel has started.
  MSITD_CHECK(getrandom(bytes.data(), bytes.size(), 0) ==
              static_cast<ssize_t>(bytes.size()));
  std::string out;
  for (const uint8_t byte : bytes) out += fmt::format("{:02x}", byte);
  return out;
}

}  // namespace msitd::web
