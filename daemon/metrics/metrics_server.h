// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/metrics/channel.h"
#include "daemon/metrics/tls_context.h"
#include "protos/os/unique_fd.h"
#include "protos/status/mutex.h"

namespace msitd::metrics {

// Answers `GET /metrics` over HTTP/1.0, with one request per connection, on a
// thread of its own. Clients are untrusted: they may be arbitrarily slow and
// may send anything. Each connection therefore has a time limit and a size
// limit, and the number of connections is bounded.
//
// Thread-compatible, except for SetTls.
class MetricsServer {
 public:
  // Another connection closes the oldest one.
  static constexpr size_t kConnectionsMax = 16;
  static constexpr size_t kRequestBytesMax = 4096;
  // Limit for bytes that arrive after the request. They are read and discarded,
  // so that the peer receives the answer.
  static constexpr size_t kPassedOverBytesMax = size_t{64} << 10;
  // From accept to the last byte of the answer.
  static constexpr std::chrono::seconds kTimeout{5};
  // The page is not rebuilt more often than this, regardless of the number of
  // requests.
  static constexpr std::chrono::milliseconds kPageAgeMax{200};

  // Returns the page. Called on the thread of the server.
  using Source = std::function<std::string()>;

  // Returns the token that a request must have as `Authorization: Bearer
  // TOKEN`, or nothing if requests need none. Empty refuses all requests.
  // Called on the thread of the server.
  using Token = std::function<std::optional<std::string>()>;

  struct Options {
    Token token = nullptr;  // Null: requests need none.
    // Null: connections are plain.
    std::shared_ptr<const TlsContext> tls = nullptr;
  };

  // Starts serving immediately. `listener` must be listening and non-blocking.
  //
  // Errors: those of eventfd.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(UniqueFd listener,
                                                              Source source,
                                                              Options options);

  // Replaces the certificates for connections that are accepted later.
  // Thread-safe.
  void SetTls(std::shared_ptr<const TlsContext> tls);

  // Calls Stop if it was not called.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // Closes all connections and returns after the thread has ended.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    Connection(UniqueFd socket, const TlsContext* tls, Clock::time_point end)
        : channel(std::move(socket), tls), deadline(end) {}

    Channel channel;
    const Clock::time_point deadline;
    std::string request;
    // The answer: its head, followed by the page if there is one.
    std::string head;
    std::shared_ptr<const std::string> body;
    size_t sent = 0;
    bool is_answered = false;
    size_t passed_over = 0;  // Bytes received after the answer.
  };

  MetricsServer(UniqueFd listener, UniqueFd stop, Source source,
                Options options)
      : listener_(std::move(listener)),
        stop_(std::move(stop)),
        source_(std::move(source)),
        token_(std::move(options.token)),
        tls_(std::move(options.tls)) {}

  void Serve();
  int TimeoutMs(Clock::time_point now) const;
  void Accept(Clock::time_point now);
  // Advances a connection as far as possible without blocking. Returns false
  // once the connection is finished.
  bool Advance(Connection& connection);
  bool Read(Connection& connection);
  bool Discard(Connection& connection);
  bool Write(Connection& connection);
  void Answer(Connection& connection);
  std::shared_ptr<const std::string> Page();

  UniqueFd listener_;
  const UniqueFd stop_;  // An eventfd.
  const Source source_;
  const Token token_;
  Mutex mu_;
  std::shared_ptr<const TlsContext> tls_ ABSL_GUARDED_BY(mu_);

  // Oldest connection first. Only the thread accesses this member and the
  // following ones.
  std::list<Connection> connections_;
  Clock::time_point accept_time_;  // No accept before this time.
  std::shared_ptr<const std::string> page_;
  Clock::time_point page_time_;

  std::thread thread_;
};

}  // namespace msitd::metrics
