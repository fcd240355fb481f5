// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/web/connection_pool.h"

namespace msitd::web {

struct WebOptions {
  std::string address = "127.0.0.1";  // A loopback address.
  int port = 0;                       // 0: any free port.
  // Names of this server in addition to those of the loopback interface, for
  // proxies.
  std::vector<std::string> hosts;
};

// Serves the page and answers its calls until it is destroyed. Thread-safe.
class WebServer {
 public:
  // Borrows `interrupts`. An interrupt ends the calls in progress, so it
  // precedes the destructor. Errors are those of HttpServer::Start.
  static absl::StatusOr<std::unique_ptr<WebServer>> Start(
      const WebOptions& options, Daemons daemons, ask::Interrupts& interrupts);

  virtual ~WebServer() = default;

  // The address to open, with the token: `http://127.0.0.1:7742/#token=...`.
  virtual std::string url() const = 0;
};

}  // namespace msitd::web
