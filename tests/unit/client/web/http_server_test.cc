// SPDX-License-Identifier: Apache-2.0
#include "client/web/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "protos/os/unique_fd.h"

namespace msitd::web {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

constexpr int kWaitMs = 15'000;

// A client that sends any bytes.
class RawClient {
 public:
  explicit RawClient(int port) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    is_connected_ =
        ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address),
                  sizeof(address)) == 0;
  }

  bool is_connected() const { return is_connected_; }

  bool Send(const std::string& bytes) {
    return ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  // Reads until the text `until` has arrived, or the server closes.
  std::string Read(const std::string& until = {}) {
    std::string out;
    while (until.empty() || out.find(until) == std::string::npos) {
      pollfd fd = {socket_.get(), POLLIN, 0};
      if (::poll(&fd, 1, kWaitMs) != 1) return out + "<time is over>";
      char bytes[4096];
      const ssize_t count = ::recv(socket_.get(), bytes, sizeof(bytes), 0);
      if (count <= 0) break;
      out.append(bytes, static_cast<size_t>(count));
    }
    return out;
  }

 private:
  UniqueFd socket_;
  bool is_connected_ = false;
};

std::string Get(const std::string& target, const std::string& more = {}) {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + more + "\r\n";
}

int StatusOf(const std::string& response) {
  return response.starts_with("HTTP/1.1 ") ? std::stoi(response.substr(9, 3))
                                           : 0;
}

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    HttpServerOptions options;
    options.fields = {{"X-Test", "yes"}};
    auto server = HttpServer::Start(
        options, [this](const HttpRequest& request, HttpReply& reply) {
          Answer(request, reply);
        });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  void Answer(const HttpRequest& request, HttpReply& reply) {
    ++request_count_;
    if (request.target == "/wait") {
      while (!is_released_) std::this_thread::sleep_for(milliseconds(5));
    }
    if (request.target == "/silent") return;
    if (request.target == "/stream") {
      reply.Begin("text/plain");
      for (int i = 0; i < 3; ++i) {
        reply.Write("line\n");
        reply.Write("");
      }
      return;
    }
    if (request.target == "/endless") {
      reply.Begin("text/plain");
      while (reply.Write(std::string(100'000, 'x'))) {
      }
      has_noticed_ = true;
      return;
    }
    const std::string body = request.method + " " + request.target + " " +
                             request.host + " " + request.body;
    reply.Send({200, "text/plain", body});
  }

  int Ask(const std::string& request) {
    RawClient client(server_->port());
    client.Send(request);
    return StatusOf(client.Read("\r\n\r\n"));
  }

  std::atomic<int> request_count_{0};
  std::atomic<bool> is_released_{false};
  std::atomic<bool> has_noticed_{false};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersSeveralRequestsOfAConnection) {
  RawClient client(server_->port());
  for (const char* target : {"/a", "/b"}) {
    ASSERT_TRUE(client.Send(Get(target)));
    const std::string end = std::string("GET ") + target + " localhost ";
    const std::string response = client.Read(end);
    EXPECT_EQ(StatusOf(response), 200) << response;
    EXPECT_NE(response.find("X-Test: yes\r\n"), std::string::npos);
    EXPECT_TRUE(response.ends_with(end)) << response;
  }
  ASSERT_TRUE(
      client.Send("POST /c HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n"
                  "Connection: close\r\n\r\nabc"));
  EXPECT_TRUE(client.Read().ends_with("POST /c h abc"));
}

TEST_F(HttpServerTest, AnswersRequestsThatArriveTogether) {
  RawClient client(server_->port());
  ASSERT_TRUE(
      client.Send(Get("/1") + Get("/2") + Get("/3", "Connection: close\r\n")));
  const std::string responses = client.Read();
  for (const char* target : {"GET /1 ", "GET /2 ", "GET /3 "}) {
    EXPECT_NE(responses.find(target), std::string::npos) << responses;
  }
}

TEST_F(HttpServerTest, StreamsChunks) {
  RawClient client(server_->port());
  client.Send(Get("/stream", "Connection: close\r\n"));
  const std::string response = client.Read();
  EXPECT_NE(response.find("Transfer-Encoding: chunked"), std::string::npos);
  EXPECT_TRUE(response.ends_with(
      "5\r\nline\n\r\n5\r\nline\n\r\n5\r\nline\n\r\n0\r\n\r\n"))
      << response;
}

TEST_F(HttpServerTest, EndsAStreamWhoseClientIsGone) {
  {
    RawClient client(server_->port());
    client.Send(Get("/endless"));
    client.Read("xxxx");
  }
  const auto deadline = Clock::now() + seconds(5);
  while (!has_noticed_ && Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_TRUE(has_noticed_);
}

TEST_F(HttpServerTest, BoundsTheHeader) {
  EXPECT_EQ(Ask(Get("/", "A: " + std::string(7000, 'a') + "\r\n")), 200);
  EXPECT_EQ(Ask(Get("/", "A: " + std::string(9000, 'a') + "\r\n")), 431);
  EXPECT_EQ(Ask("GET /" + std::string(9000, 'a') + " HTTP/1.1\r\n\r\n"), 431);
  std::string many;
  for (int i = 0; i < 2000; ++i) many += "A: b\r\n";
  EXPECT_EQ(Ask(Get("/", many)), 431);
  // A line without an end is not kept in memory.
  RawClient client(server_->port());
  client.Send("GET / HTTP/1.1\r\nA: ");
  const std::string piece(1 << 20, 'a');
  for (int i = 0; i < 300 && client.Send(piece); ++i) {
  }
  EXPECT_EQ(request_count_, 1);
}

TEST_F(HttpServerTest, BoundsTheBody) {
  const auto post = [](size_t declared, const std::string& body) {
    return "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: " +
           std::to_string(declared) + "\r\n\r\n" + body;
  };
  const std::string largest(kBodyBytesMax, 'b');
  EXPECT_EQ(Ask(post(largest.size(), largest)), 200);
  EXPECT_EQ(Ask(post(largest.size() + 1, largest)), 413);
  EXPECT_EQ(Ask(post(size_t{1} << 62, "b")), 413);
  EXPECT_EQ(Ask("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n"
                "\r\n20000\r\n" +
                std::string(0x20000, 'b') + "\r\n0\r\n\r\n"),
            413);
  EXPECT_EQ(request_count_, 1);
}

TEST_F(HttpServerTest, RefusesMalformedRequests) {
  for (const std::string& bytes :
       {std::string("\r\n\r\n\r\n"), std::string("GET\r\n\r\n"),
        std::string("GET / HTTP/9.9\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nA b\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\n: b\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nA\0: b\r\n\r\n", 26),
        std::string("POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nContent-Length: 1\r\n"
                    "Content-Length: 2\r\n\r\nab"),
        std::string("POST / HTTP/1.1\r\nContent-Length: 1\r\n"
                    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
        std::string("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "zz\r\n\r\n"),
        std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 11)}) {
    RawClient client(server_->port());
    client.Send(bytes);
    EXPECT_EQ(StatusOf(client.Read("\r\n\r\n")), 400) << bytes;
  }
  EXPECT_EQ(request_count_, 0);
}

TEST_F(HttpServerTest, RefusesFieldsThatOccurTwice) {
  for (const char* field : {"Host: evil", "Origin: a\r\nOrigin: b",
                            "Authorization: a\r\nAuthorization: b",
                            "Content-Type: a\r\nContent-Type: b"}) {
    EXPECT_EQ(Ask(Get("/", std::string(field) + "\r\n")), 400) << field;
  }
}

TEST_F(HttpServerTest, SurvivesAnyBytes) {
  std::mt19937 random(7);
  const std::string start = "POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4";
  for (int i = 0; i < 300; ++i) {
    std::string bytes = start + "\r\n\r\nabcd";
    for (int k = 0; k < 3; ++k) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    RawClient client(server_->port());
    ASSERT_TRUE(client.is_connected());
    client.Send(bytes.substr(0, random() % (bytes.size() + 1)));
  }
  EXPECT_EQ(Ask(Get("/")), 200);
}

TEST_F(HttpServerTest, AHandlerThatDoesNotAnswerIsAnError) {
  EXPECT_EQ(Ask(Get("/silent")), 500);
}

TEST_F(HttpServerTest, AnswersDuringAThousandIdleConnections) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    ASSERT_TRUE(clients.back()->is_connected());
    // Half a request.
    clients.back()->Send("GET / HT");
    if (i % 100 == 99) {
      const auto start = Clock::now();
      EXPECT_EQ(Ask(Get("/")), 200) << i;
      EXPECT_LT(Clock::now() - start, seconds(5));
    }
  }
}

TEST_F(HttpServerTest, RefusesConnectionsWhileAllAreAnswered) {
  std::vector<std::unique_ptr<RawClient>> clients;
  for (size_t i = 0; i < kConnectionsMax; ++i) {
    clients.push_back(std::make_unique<RawClient>(server_->port()));
    clients.back()->Send(Get("/wait"));
  }
  const auto deadline = Clock::now() + seconds(10);
  while (request_count_ < static_cast<int>(kConnectionsMax) &&
         Clock::now() < deadline) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(Ask(Get("/")), 503);
  is_released_ = true;
  for (const auto& client : clients) {
    EXPECT_EQ(StatusOf(client->Read("GET /wait localhost ")), 200);
  }
  EXPECT_EQ(Ask(Get("/")), 200);
}

// Without the limit, a client that sends a byte at a time would stay forever.
TEST_F(HttpServerTest, EndsSlowRequests) {
  RawClient client(server_->port());
  const auto start = Clock::now();
  bool is_open = true;
  while (is_open && Clock::now() - start < kIoTimeout + seconds(5)) {
    is_open = client.Send("G");
    std::this_thread::sleep_for(milliseconds(200));
  }
  EXPECT_FALSE(is_open);
  EXPECT_GT(Clock::now() - start, kIoTimeout - seconds(1));
}

TEST_F(HttpServerTest, EndsWithOpenConnections) {
  RawClient idle(server_->port());
  RawClient half(server_->port());
  half.Send("GET / HT");
  RawClient reading(server_->port());
  reading.Send(Get("/endless"));
  reading.Read("xxxx");
  const auto start = Clock::now();
  server_.reset();
  EXPECT_LT(Clock::now() - start, seconds(5));
  EXPECT_EQ(idle.Read(), "");
}

TEST(HttpServerStartTest, ReportsAddressesThatCannotBeUsed) {
  const auto start = [](const std::string& address, int port) {
    HttpServerOptions options;
    options.address = address;
    options.port = port;
    return HttpServer::Start(options, [](const HttpRequest&, HttpReply&) {});
  };
  const auto server = start("127.0.0.1", 0);
  ASSERT_TRUE(server.ok());
  EXPECT_TRUE(
      absl::IsUnavailable(start("127.0.0.1", (*server)->port()).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(start("localhost", 0).status()));
  EXPECT_TRUE(absl::IsUnavailable(start("192.0.2.1", 0).status()));
}

}  // namespace
}  // namespace msitd::web
