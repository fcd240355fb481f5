// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/web/http_message.h"

namespace msitd::web {

// Why a request is refused.
struct Refusal {
  int status = 0;
  std::string_view why;  // Valid for the lifetime of the process.
};

// Decides which requests are answered. Any program of this machine can connect
// to the port, and any page in the browser of the user can send requests to it:
//
// - Other users of the machine lack the token.
// - A page of another site whose name resolves to this machine has that name
//   in `Host`.
// - A page of another site that sends a request has its own name in `Origin`
//   or `Sec-Fetch-Site`.
//
// Immutable, thus thread-safe.
class RequestGuard {
 public:
  // `token` is not empty. `hosts` are names that the server is reached by, in
  // addition to those of the loopback interface, without ports.
  RequestGuard(std::string token, std::vector<std::string> hosts);

  // For the page itself, which is the same for everyone.
  std::optional<Refusal> CheckPage(const HttpRequest& request) const;

  // For calls of a daemon.
  std::optional<Refusal> CheckCall(const HttpRequest& request) const;

 private:
  bool IsOurHost(std::string_view host) const;

  const std::string token_;
  std::vector<std::string> hosts_;
};

// Returns 128 random bits as 32 hexadecimal digits.
std::string NewToken();

}  // namespace msitd::web
