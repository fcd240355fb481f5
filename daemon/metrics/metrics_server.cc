// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics/metrics_server.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "protos/os/thread.h"
#include "protos/status/status.h"

namespace msitd::metrics {
namespace {

// How long to wait for a file descriptor to become free.
constexpr std::chrono::milliseconds kAcceptPause{100};
constexpr int kAcceptsPerTurn = 16;

constexpr std::string_view kPlainText = "text/plain; charset=utf-8";
constexpr std::string_view kPageType =
    "text/plain; version=0.0.4; charset=utf-8";

// The request line. Header lines are ignored.
struct RequestLine {
  std::string_view method;
  std::string_view path;
  bool is_http = false;
};

RequestLine Parse(std::string_view request) {
  const std::string_view line =
      request.substr(0, request.find_first_of("\r\n"));
  RequestLine out;
  const size_t first = line.find(' ');
  const size_t second = line.rfind(' ');
  if (first == std::string_view::npos || second == first) return out;
  out.method = line.substr(0, first);
  out.path = line.substr(first + 1, second - first - 1);
  out.path = out.path.substr(0, out.path.find('?'));
  out.is_http = line.substr(second + 1).starts_with("HTTP/1.");
  return out;
}

char Lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Removes `prefix`, in either case, from the beginning of `text`.
bool ConsumePrefix(std::string_view prefix, std::string_view& text) {
  if (text.size() < prefix.size() ||
      !std::equal(prefix.begin(), prefix.end(), text.begin(),
                  [](char a, char b) { return Lower(a) == Lower(b); })) {
    return false;
  }
  text.remove_prefix(prefix.size());
  return true;
}

// Takes equal time for all texts of the length of `expected`, so that the time
// does not reveal how much of a guess is right.
bool IsEqual(std::string_view text, std::string_view expected) {
  if (text.size() != expected.size()) return false;
  unsigned difference = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    difference |= static_cast<unsigned char>(text[i] ^ expected[i]);
  }
  return difference == 0;
}

// Whether exactly one header line has the token.
bool HasToken(std::string_view request, std::string_view token) {
  if (token.empty()) return false;
  int right = 0;
  int all = 0;
  for (size_t at = request.find('\n'); at != std::string_view::npos;
       at = request.find('\n', at + 1)) {
    std::string_view line = request.substr(at + 1);
    line = line.substr(0, line.find_first_of("\r\n"));
    if (line.empty()) break;
    if (!ConsumePrefix("authorization:", line)) continue;
    ++all;
    while (line.starts_with(' ')) line.remove_prefix(1);
    if (!ConsumePrefix("bearer ", line)) continue;
    while (line.starts_with(' ')) line.remove_prefix(1);
    while (line.ends_with(' ')) line.remove_suffix(1);
    if (IsEqual(line, token)) ++right;
  }
  return right == 1 && all == 1;
}

bool IsComplete(std::string_view request) {
  return request.find("\r\n\r\n") != std::string_view::npos ||
         request.find("\n\n") != std::string_view::npos;
}

bool WouldBlock(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

std::string Head(std::string_view status, std::string_view type, size_t bytes,
                 std::string_view more = {}) {
  return fmt::format(
      "HTTP/1.0 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n"
      "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
      "Connection: close\r\n{}\r\n",
      status, type, bytes, more);
}

std::string Refusal(std::string_view status, std::string_view text,
                    std::string_view more = {}) {
  return Head(status, kPlainText, text.size(), more) + std::string(text);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    UniqueFd listener, Source source, Options options) {
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stop.valid()) return ErrnoStatus(errno, "eventfd");
  auto out = std::unique_ptr<MetricsServer>(
      new MetricsServer(std::move(listener), std::move(stop), std::move(source),
                        std::move(options)));
  out->thread_ =
      StartThread("metrics", [server = out.get()] { server->Serve(); });
  return out;
}

MetricsServer::~MetricsServer() { Stop(); }

void MetricsServer::Stop() {
  if (!thread_.joinable()) return;
  const uint64_t one = 1;
  (void)!::write(stop_.get(), &one, sizeof(one));
  thread_.join();
  connections_.clear();
  listener_.reset();
}

void MetricsServer::SetTls(std::shared_ptr<const TlsContext> tls) {
  MutexLock lock(mu_);
  tls_.swap(tls);
}

int MetricsServer::TimeoutMs(Clock::time_point now) const {
  auto next = Clock::time_point::max();
  if (accept_time_ > now) next = accept_time_;
  for (const Connection& connection : connections_) {
    next = std::min(next, connection.deadline);
  }
  if (next == Clock::time_point::max()) return -1;
  const auto wait = std::chrono::ceil<std::chrono::milliseconds>(next - now);
  return static_cast<int>(std::max<int64_t>(wait.count(), 0));
}

void MetricsServer::Serve() {
  std::vector<pollfd> events;
  while (true) {
    const auto now = Clock::now();
    events.clear();
    events.push_back({stop_.get(), POLLIN, 0});
    // poll() ignores negative descriptors.
    events.push_back({now < accept_time_ ? -1 : listener_.get(), POLLIN, 0});
    for (const Connection& connection : connections_) {
      events.push_back(
          {connection.channel.fd(), connection.channel.events(), 0});
    }
    if (::poll(events.data(), events.size(), TimeoutMs(now)) < 0) continue;
    if (events[0].revents != 0) return;
    size_t place = 2;
    for (auto it = connections_.begin(); it != connections_.end(); ++place) {
      const bool has_event = events[place].revents != 0;
      const bool stays =
          (!has_event || Advance(*it)) && Clock::now() < it->deadline;
      it = stays ? std::next(it) : connections_.erase(it);
    }
    if (events[1].revents != 0) Accept(Clock::now());
  }
}

void MetricsServer::Accept(Clock::time_point now) {
  std::shared_ptr<const TlsContext> tls;
  {
    MutexLock lock(mu_);
    tls = tls_;
  }
  for (int i = 0; i < kAcceptsPerTurn; ++i) {
    UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr,
                              SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) {
      if (!WouldBlock(errno) && errno != ECONNABORTED && errno != EINTR) {
        accept_time_ = now + kAcceptPause;
      }
      return;
    }
    if (connections_.size() >= kConnectionsMax) connections_.pop_front();
    connections_.emplace_back(std::move(socket), tls.get(), now + kTimeout);
  }
}

bool MetricsServer::Advance(Connection& connection) {
  if (connection.is_answered) return Discard(connection);
  if (connection.head.empty() && !Read(connection)) return false;
  return connection.head.empty() || Write(connection);
}

bool MetricsServer::Read(Connection& connection) {
  std::array<char, kRequestBytesMax> bytes;
  // Decrypted bytes that are not read here would cause no further event.
  while (connection.head.empty()) {
    size_t length = 0;
    switch (connection.channel.Read(bytes, length)) {
      case Channel::Result::kBlocked:
        return true;
      case Channel::Result::kClosed:
        return false;
      case Channel::Result::kDone:
        break;
    }
    const size_t room = kRequestBytesMax - connection.request.size();
    connection.request.append(bytes.data(), std::min(length, room));
    if (IsComplete(connection.request)) {
      Answer(connection);
    } else if (length >= room) {
      connection.head = Refusal("431 Request Header Fields Too Large",
                                "the request is too long\n");
    }
  }
  return true;
}

bool MetricsServer::Discard(Connection& connection) {
  std::array<char, kRequestBytesMax> bytes;
  size_t length = 0;
  switch (connection.channel.Discard(bytes, length)) {
    case Channel::Result::kBlocked:
      return true;
    case Channel::Result::kClosed:
      return false;
    case Channel::Result::kDone:
      break;
  }
  connection.passed_over += length;
  return connection.passed_over <= kPassedOverBytesMax;
}

void MetricsServer::Answer(Connection& connection) {
  const RequestLine line = Parse(connection.request);
  if (!line.is_http) {
    connection.head =
        Refusal("400 Bad Request", "this is not an HTTP/1 request\n");
  } else if (const auto token = token_ ? token_() : std::nullopt;
             token.has_value() && !HasToken(connection.request, *token)) {
    connection.head =
        Refusal("401 Unauthorized", "this page requires a token\n",
                "WWW-Authenticate: Bearer\r\n");
  } else if (line.method != "GET" && line.method != "HEAD") {
    connection.head =
        Refusal("405 Method Not Allowed", "only GET and HEAD are supported\n",
                "Allow: GET, HEAD\r\n");
  } else if (line.path != "/metrics") {
    connection.head = Refusal("404 Not Found", "only /metrics exists\n");
  } else {
    const auto page = Page();
    connection.head = Head("200 OK", kPageType, page->size());
    if (line.method == "GET") connection.body = page;
  }
}

std::shared_ptr<const std::string> MetricsServer::Page() {
  const auto now = Clock::now();
  if (page_ == nullptr || now - page_time_ >= kPageAgeMax) {
    page_ = std::make_shared<const std::string>(source_());
    page_time_ = now;
  }
  return page_;
}

bool MetricsServer::Write(Connection& connection) {
  const size_t body_bytes =
      connection.body == nullptr ? 0 : connection.body->size();
  const size_t total = connection.head.size() + body_bytes;
  while (connection.sent < total) {
    const bool is_head = connection.sent < connection.head.size();
    const std::string& part = is_head ? connection.head : *connection.body;
    const size_t offset =
        is_head ? connection.sent : connection.sent - connection.head.size();
    size_t count = 0;
    switch (connection.channel.Write(std::string_view(part).substr(offset),
                                     count)) {
      case Channel::Result::kBlocked:
        return true;
      case Channel::Result::kClosed:
        return false;
      case Channel::Result::kDone:
        break;
    }
    connection.sent += count;
  }
  // Closing a socket that has unread bytes would reset the connection and
  // discard the answer, so the peer closes first.
  connection.is_answered = true;
  connection.body.reset();
  return connection.channel.EndWriting();
}

}  // namespace msitd::metrics
