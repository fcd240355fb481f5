// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/os/unique_fd.h"

namespace msitd::metrics {

// Answers `GET /metrics` over HTTP/1.0, one request a connection, on a thread
// of its own. Whoever connects can send and read as slowly as he likes, or send
// what he likes: each connection has a time and a size, and there are few.
//
// Thread-compatible.
class MetricsServer {
 public:
  // One more closes the oldest.
  static constexpr size_t kConnectionsMax = 16;
  static constexpr size_t kRequestBytesMax = 4096;
  // Of what comes behind the request, so that the peer sees the answer.
  static constexpr size_t kPassedOverBytesMax = size_t{64} << 10;
  // From the accept until the last byte of the answer.
  static constexpr std::chrono::seconds kTimeout{5};
  // However many ask, the page is not made more often.
  static constexpr std::chrono::milliseconds kPageAgeMax{200};

  // Returns the page; called on the thread of the server.
  using Source = std::function<std::string()>;

  // Serves at once. `listener` listens and does not block.
  //
  // Errors: those of eventfd.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(UniqueFd listener,
                                                              Source source);

  // Stops if nobody has.
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

  // Closes everything, and returns when the thread has ended.
  void Stop();

 private:
  using Clock = std::chrono::steady_clock;
  struct Connection {
    UniqueFd socket;
    Clock::time_point deadline;
    std::string request;
    // The answer: its head, then the page if there is one.
    std::string head;
    std::shared_ptr<const std::string> body;
    size_t sent = 0;
    bool is_answered = false;
    size_t passed_over = 0;  // Bytes that came after that.
  };

  explicit MetricsServer(UniqueFd listener, UniqueFd stop, Source source)
      : listener_(std::move(listener)),
        stop_(std::move(stop)),
        source_(std::move(source)) {}

  void Serve();
  int TimeoutMs(Clock::time_point now) const;
  void Accept(Clock::time_point now);
  // Goes on with a connection as far as it can without blocking; false once it
  // is over.
  bool Advance(Connection& connection);
  bool Read(Connection& connection);
  bool Write(Connection& connection);
  void Answer(Connection& connection);
  std::shared_ptr<const std::string> Page();

  UniqueFd listener_;
  const UniqueFd stop_;  // An eventfd.
  const Source source_;

  // The oldest first. Only the thread touches these.
  std::list<Connection> connections_;
  Clock::time_point accept_time_;  // No accept before: no descriptor was left.
  std::shared_ptr<const std::string> page_;
  Clock::time_point page_time_;

  std::thread thread_;
};

}  // namespace msitd::metrics
