// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/web/http_message.h"

namespace msitd::web {

// Limits of the server. A client that exceeds one harms only its own
// connection.
//
// The request line and all fields of the header: 431.
inline constexpr size_t kHeaderBytesMax = size_t{8} << 10;
// The body of a request: 413.
inline constexpr size_t kBodyBytesMax = size_t{64} << 10;
// Open connections. For one more, the connection that has waited longest for
// its next request is closed. If all of them are being answered: 503.
inline constexpr size_t kConnectionsMax = 64;
// The time in which a request must arrive completely, counted from the
// connection or the previous response, and in which a client must read each
// piece of a response. Afterwards the connection is closed.
inline constexpr std::chrono::seconds kIoTimeout{10};

struct HttpServerOptions {
  std::string address = "127.0.0.1";  // A numeric address.
  int port = 0;                       // 0: any free port.
  // Fields that every response has.
  std::vector<std::pair<std::string_view, std::string_view>> fields;
};

// A small HTTP/1.1 server without TLS, for a page on the machine of its user.
//
// Each connection has a thread, because handlers wait for daemons. With at most
// kConnectionsMax of them, this is simpler than handlers that are called back,
// and costs some 100 KiB per connection. Only this file's source includes
// Boost. Thread-safe.
class HttpServer {
 public:
  // Listens and starts to answer. UNAVAILABLE if the address is in use;
  // INVALID_ARGUMENT if it is not numeric.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      HttpServerOptions options, HttpHandler handler);

  // Closes all connections, and waits until no handler runs. The caller makes
  // running handlers return, for example by an interrupt.
  virtual ~HttpServer() = default;

  // The port that the server listens on.
  virtual int port() const = 0;
};

}  // namespace msitd::web
