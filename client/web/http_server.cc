// SPDX-License-Identifier: Apache-2.0
#include "client/web/http_server.h"

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <list>
#include <optional>
#include <thread>

#include "protos/os/thread.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"

namespace msitd::web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using boost::system::error_code;
using Clock = std::chrono::steady_clock;
using tcp = asio::ip::tcp;

constexpr int kHttpVersion = 11;
// A request and the beginning of the next one.
constexpr size_t kBufferBytesMax = 2 * (kHeaderBytesMax + kBodyBytesMax);
// The time in which a connection that makes room for another one ends.
constexpr std::chrono::milliseconds kEvictionTimeMax{200};
// The time in which the rest of a refused request is read.
constexpr std::chrono::seconds kDrainTimeMax{1};
constexpr int kListenBacklog = 128;

// Returns the status that answers a malformed request; 0 if the client has
// closed the connection or sent nothing in time.
int StatusOfError(const error_code& error) {
  if (error == http::error::header_limit) return 431;
  if (error == http::error::body_limit) return 413;
  if (error == http::error::end_of_stream ||
      error == http::error::partial_message) {
    return 0;
  }
  const bool is_malformed =
      error.category() ==
      http::make_error_code(http::error::bad_method).category();
  return is_malformed ? 400 : 0;
}

std::string_view ViewOf(beast::string_view text) {
  return {text.data(), text.size()};
}

// One connection and its thread.
class Connection final : public HttpReply {
 public:
  using Fields = std::vector<std::pair<std::string_view, std::string_view>>;

  Connection(const Fields& fields, const HttpHandler& handler)
      : fields_(fields), handler_(handler), stream_(io_) {}

  // The context in which the socket is accepted.
  asio::io_context& io() { return io_; }

  // `on_end` is called last, by the thread of the connection.
  bool Start(tcp::socket socket, std::function<void()> on_end) {
    stream_.socket() = std::move(socket);
    thread_ = StartSpareThread("http", [this, on_end = std::move(on_end)] {
      Serve();
      on_end();
    });
    return thread_.joinable();
  }

  // Closes the connection; a handler that runs is not interrupted. Called by
  // any thread.
  void Close() {
    is_closed_ = true;
    asio::post(io_, [this] { stream_.close(); });
  }

  void Join() {
    if (thread_.joinable()) thread_.join();
  }

  // When the connection began to wait for its next request; absent while a
  // request is answered.
  std::optional<Clock::time_point> waiting_since() const {
    const Clock::rep since = waiting_since_;
    if (since == kAnswers) return std::nullopt;
    return Clock::time_point(Clock::duration(since));
  }
  bool is_closed() const { return is_closed_; }

  void Send(const HttpResponse& response) override {
    http::response<http::span_body<const char>> message(
        static_cast<http::status>(response.status), kHttpVersion);
    SetFields(message, response.content_type);
    message.body() = {response.body.data(), response.body.size()};
    message.keep_alive(keeps_alive_ && !is_closed_);
    message.prepare_payload();
    has_sent_ = true;
    Note(Await([&](auto done) {
      http::async_write(stream_, message, std::move(done));
    }));
  }

  bool Begin(std::string_view content_type) override {
    http::response<http::empty_body> head(http::status::ok, kHttpVersion);
    SetFields(head, content_type);
    head.chunked(true);
    head.keep_alive(keeps_alive_ && !is_closed_);
    http::response_serializer<http::empty_body> serializer(head);
    has_sent_ = true;
    is_stream_ = true;
    Note(Await([&](auto done) {
      http::async_write_header(stream_, serializer, std::move(done));
    }));
    return !has_failed_;
  }

  bool Write(std::string_view bytes) override {
    // An empty chunk would end the response.
    if (bytes.empty() || has_failed_ || is_closed_) {
      return !has_failed_ && !is_closed_;
    }
    Note(Await([&](auto done) {
      asio::async_write(
          stream_,
          http::make_chunk(asio::const_buffer(bytes.data(), bytes.size())),
          std::move(done));
    }));
    return !has_failed_;
  }

 private:
  static constexpr Clock::rep kAnswers = -1;

  void Serve() {
    while (keeps_alive_ && !has_failed_ && !is_closed_) ServeOne();
    error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    if (!is_closed_ && is_refused_) Drain();
    stream_.close();
  }

  // Reads the rest of a refused request. If unread bytes remain when a socket
  // is closed, the client may lose the response.
  void Drain() {
    std::array<char, 4096> rest;
    error_code error;
    const auto deadline = Clock::now() + kDrainTimeMax;
    while (!error && Clock::now() < deadline) {
      error = Await(
          [&](auto done) {
            stream_.async_read_some(asio::buffer(rest), std::move(done));
          },
          kDrainTimeMax);
    }
  }

  void ServeOne() {
    http::request_parser<http::string_body> parser;
    parser.header_limit(kHeaderBytesMax);
    parser.body_limit(kBodyBytesMax);
    has_sent_ = false;
    is_stream_ = false;
    waiting_since_ = Clock::now().time_since_epoch().count();
    const error_code error = Await([&](auto done) {
      http::async_read(stream_, buffer_, parser, std::move(done));
    });
    waiting_since_ = kAnswers;
    if (error) return Refuse(StatusOfError(error));
    const auto& message = parser.get();
    keeps_alive_ = message.keep_alive();
    // Two fields that this server decides by could be read differently by a
    // proxy.
    for (const http::field field :
         {http::field::host, http::field::origin, http::field::authorization,
          http::field::content_type}) {
      if (message.count(field) > 1) return Refuse(400);
    }
    handler_(ToRequest(message), *this);
    if (!has_sent_) return Refuse(500);
    if (is_stream_ && !has_failed_) EndStream();
  }

  void EndStream() {
    Note(Await([&](auto done) {
      asio::async_write(stream_, http::make_chunk_last(), std::move(done));
    }));
  }

  // Answers a request that was not read completely, so that the connection
  // cannot be used again.
  void Refuse(int status) {
    keeps_alive_ = false;
    is_refused_ = status != 0;
    if (is_refused_) Send({status, "text/plain; charset=utf-8", "\n"});
    has_failed_ = true;
  }

  static HttpRequest ToRequest(
      const http::request<http::string_body>& message) {
    const auto field = [&message](auto name) {
      return std::string(ViewOf(message[name]));
    };
    HttpRequest request;
    request.method = std::string(ViewOf(message.method_string()));
    request.target = std::string(ViewOf(message.target()));
    request.host = field(http::field::host);
    request.origin = field(http::field::origin);
    request.authorization = field(http::field::authorization);
    request.content_type = field(http::field::content_type);
    request.fetch_site = field("Sec-Fetch-Site");
    request.body = message.body();
    return request;
  }

  template <typename Body>
  void SetFields(http::response<Body>& message,
                 std::string_view content_type) const {
    const auto view = [](std::string_view text) {
      return beast::string_view(text.data(), text.size());
    };
    message.set(http::field::content_type, view(content_type));
    for (const auto& [name, value] : fields_) {
      message.set(view(name), view(value));
    }
  }

  // Runs one asynchronous operation to its end, because only these have a time
  // limit.
  template <typename Begin>
  error_code Await(const Begin& begin, Clock::duration time_max = kIoTimeout) {
    error_code result;
    stream_.expires_after(time_max);
    begin([&result](const error_code& error, size_t) { result = error; });
    io_.restart();
    io_.run();
    return result;
  }

  void Note(const error_code& error) {
    if (error) has_failed_ = true;
  }

  const Fields& fields_;
  const HttpHandler& handler_;
  asio::io_context io_{1};
  beast::tcp_stream stream_;
  beast::flat_buffer buffer_{kBufferBytesMax};
  std::atomic<Clock::rep> waiting_since_{0};
  std::atomic<bool> is_closed_{false};
  bool keeps_alive_ = true;
  bool has_failed_ = false;
  bool has_sent_ = false;
  bool is_stream_ = false;
  bool is_refused_ = false;
  std::thread thread_;
};

class Server final : public HttpServer {
 public:
  Server(HttpServerOptions options, HttpHandler handler)
      : options_(std::move(options)), handler_(std::move(handler)) {}

  ~Server() override {
    asio::post(io_, [this] {
      error_code ignored;
      acceptor_.close(ignored);
    });
    if (thread_.joinable()) thread_.join();
    std::list<std::unique_ptr<Connection>> connections;
    {
      MutexLock lock(mu_);
      connections.swap(connections_);
    }
    for (const auto& connection : connections) connection->Close();
    for (const auto& connection : connections) connection->Join();
  }

  absl::Status Listen() {
    error_code error;
    const auto address = asio::ip::make_address(options_.address, error);
    if (error) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "{} is not a numeric address", options_.address);
    }
    const tcp::endpoint endpoint(address, static_cast<uint16_t>(options_.port));
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(tcp::acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(kListenBacklog, error);
    if (error) {
      return MakeStatus(absl::StatusCode::kUnavailable, "{}", error.message());
    }
    port_ = acceptor_.local_endpoint(error).port();
    AcceptNext();
    thread_ = StartSpareThread("http accept", [this] { io_.run(); });
    if (!thread_.joinable()) {
      return MakeStatus(absl::StatusCode::kUnavailable, "no thread");
    }
    return absl::OkStatus();
  }

  int port() const override { return port_; }

 private:
  void AcceptNext() {
    next_ = std::make_unique<Connection>(options_.fields, handler_);
    acceptor_.async_accept(next_->io(),
                           [this](const error_code& error, tcp::socket socket) {
                             OnAccept(error, std::move(socket));
                           });
  }

  void OnAccept(const error_code& error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    Reap();
    if (!error) {
      if (HasRoom()) {
        Add(std::move(socket));
      } else {
        RefuseFull(std::move(socket));
      }
    } else if (error == asio::error::no_descriptors) {
      // Until connections end, there is nothing to do.
      std::this_thread::sleep_for(kEvictionTimeMax);
    }
    AcceptNext();
  }

  void Add(tcp::socket socket) {
    Connection* const connection = next_.get();
    {
      MutexLock lock(mu_);
      connections_.push_back(std::move(next_));
      ++open_count_;
    }
    const bool has_started = connection->Start(
        std::move(socket), [this, connection] { OnEnd(connection); });
    if (!has_started) OnEnd(connection);
  }

  void OnEnd(Connection* connection) {
    MutexLock lock(mu_);
    ended_.push_back(connection);
    --open_count_;
    changed_.NotifyAll();
  }

  // Frees connections that have ended.
  void Reap() {
    std::vector<Connection*> ended;
    {
      MutexLock lock(mu_);
      ended.swap(ended_);
    }
    for (Connection* const connection : ended) {
      connection->Join();
      MutexLock lock(mu_);
      connections_.remove_if([connection](const auto& other) {
        return other.get() == connection;
      });
    }
  }

  // Closes a waiting connection if there is no room.
  bool HasRoom() {
    MutexLock lock(mu_);
    if (open_count_ < kConnectionsMax) return true;
    Connection* oldest = nullptr;
    Clock::time_point oldest_since = Clock::time_point::max();
    for (const auto& connection : connections_) {
      const auto since = connection->waiting_since();
      if (!since.has_value() || connection->is_closed()) continue;
      if (*since >= oldest_since) continue;
      oldest = connection.get();
      oldest_since = *since;
    }
    if (oldest == nullptr) return false;
    oldest->Close();
    const auto deadline = Clock::now() + kEvictionTimeMax;
    while (open_count_ >= kConnectionsMax) {
      if (!changed_.WaitUntil(mu_, deadline)) break;
    }
    return open_count_ < kConnectionsMax;
  }

  static void RefuseFull(tcp::socket socket) {
    static constexpr std::string_view kFull =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
        "Connection: close\r\n\r\n";
    error_code ignored;
    // A new socket has room for these bytes.
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(kFull.data(), kFull.size()), ignored);
    socket.shutdown(tcp::socket::shutdown_both, ignored);
  }

  const HttpServerOptions options_;
  const HttpHandler handler_;
  asio::io_context io_{1};
  tcp::acceptor acceptor_{io_};
  int port_ = 0;
  std::thread thread_;
  std::unique_ptr<Connection> next_;

  Mutex mu_;
  CondVar changed_;
  std::list<std::unique_ptr<Connection>> connections_ ABSL_GUARDED_BY(mu_);
  std::vector<Connection*> ended_ ABSL_GUARDED_BY(mu_);
  size_t open_count_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    HttpServerOptions options, HttpHandler handler) {
  auto server =
      std::make_unique<Server>(std::move(options), std::move(handler));
  MSITD_RETURN_IF_ERROR(server->Listen());
  return server;
}

}  // namespace msitd::web
