// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics/metrics_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <vector>

namespace msitd::metrics {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kGet[] = "GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n";

class MetricsServerTest : public ::testing::Test {
 protected:
  void SetUp() override { Serve("the page\n"); }

  void Serve(std::string page) {
    server_.reset();
    UniqueFd listener(
        ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    address_ = {};
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address_);
    auto* const address = reinterpret_cast<sockaddr*>(&address_);
    ASSERT_EQ(::bind(listener.get(), address, length), 0);
    ASSERT_EQ(::listen(listener.get(), 64), 0);
    ASSERT_EQ(::getsockname(listener.get(), address, &length), 0);
    auto server = MetricsServer::Start(std::move(listener),
                                       [this, page = std::move(page)] {
                                         ++page_count_;
                                         return page;
                                       },
                                       {});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  UniqueFd Connect() {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    // The timeout makes a test fail instead of waiting forever.
    const timeval limit{30, 0};
    ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address_),
                        sizeof(address_)),
              0);
    return fd;
  }

  void Send(const UniqueFd& fd, std::string_view text) {
    ::send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
  }

  // Reads until the end. Returns "closed" if there is no data.
  std::string Receive(const UniqueFd& fd) {
    std::string out;
    char bytes[4096];
    while (true) {
      const ssize_t count = ::recv(fd.get(), bytes, sizeof(bytes), 0);
      if (count <= 0) break;
      out.append(bytes, static_cast<size_t>(count));
    }
    return out.empty() ? "closed" : out;
  }

  std::string Ask(std::string_view request) {
    const UniqueFd fd = Connect();
    Send(fd, request);
    return Receive(fd);
  }

  std::atomic<int> page_count_ = 0;
  sockaddr_in address_{};
  std::unique_ptr<MetricsServer> server_;
};

TEST_F(MetricsServerTest, AnswersWithThePage) {
  for (const std::string target : {"/metrics", "/metrics?name=x"}) {
    const std::string answer = Ask("GET " + target + " HTTP/1.1\r\n\r\n");
    EXPECT_THAT(answer, StartsWith("HTTP/1.0 200 OK\r\nContent-Type: "
                                   "text/plain; version=0.0.4"));
    EXPECT_THAT(answer, HasSubstr("Content-Length: 9\r\n"));
    EXPECT_THAT(answer, EndsWith("\r\n\r\nthe page\n"));
  }
  EXPECT_THAT(Ask("HEAD /metrics HTTP/1.0\n\n"), EndsWith("\r\n\r\n"));
}

TEST_F(MetricsServerTest, RefusesEverythingElse) {
  EXPECT_THAT(Ask("GET / HTTP/1.1\r\n\r\n"), StartsWith("HTTP/1.0 404 "));
  EXPECT_THAT(Ask("POST /metrics HTTP/1.1\r\n\r\nbody"),
              StartsWith("HTTP/1.0 405 "));
  for (const std::string& garbage :
       {std::string("\r\n\r\n"), std::string("\0\xff\n\n", 4),
        std::string("GET /metrics\r\n\r\n"),
        std::string("GET /metrics SPDY/3\r\n\r\n"),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")}) {
    EXPECT_THAT(Ask(garbage), StartsWith("HTTP/1.0 400 ")) << garbage;
  }
  const std::string endless = "GET /metrics HTTP/1.1\r\nA: ";
  EXPECT_THAT(Ask(endless + std::string(100'000, 'a')),
              StartsWith("HTTP/1.0 431 "));
  EXPECT_EQ(page_count_, 0);
}

TEST_F(MetricsServerTest, ARequestMayComeByteByByte) {
  const UniqueFd fd = Connect();
  for (const char c : std::string(kGet)) Send(fd, std::string_view(&c, 1));
  EXPECT_THAT(Receive(fd), EndsWith("the page\n"));
}

TEST_F(MetricsServerTest, SilentOnesKeepNobodyOut) {
  std::vector<UniqueFd> silent;
  for (size_t i = 0; i < 4 * MetricsServer::kConnectionsMax; ++i) {
    silent.push_back(Connect());
  }
  EXPECT_THAT(Ask(kGet), EndsWith("the page\n"));
  // The first connection was closed.
  EXPECT_EQ(Receive(silent.front()), "closed");
}

TEST_F(MetricsServerTest, OneThatDoesNotReadHarmsNobodyAndIsCutOff) {
  const std::string page(size_t{32} << 20, 'x');
  Serve(page);
  const UniqueFd slow = Connect();
  Send(slow, kGet);
  EXPECT_THAT(Ask(kGet), EndsWith("xxx"));
  std::string answer = Receive(slow);
  EXPECT_THAT(answer.substr(0, 15), StartsWith("HTTP/1.0 200 OK"));
  EXPECT_EQ(Ask(kGet).size(), answer.size());
}

TEST_F(MetricsServerTest, ASilentOneIsCutOffInTime) {
  const UniqueFd silent = Connect();
  Send(silent, "GET /met");
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(Receive(silent), "closed");
  EXPECT_LT(std::chrono::steady_clock::now() - begin,
            2 * MetricsServer::kTimeout);
}

TEST_F(MetricsServerTest, ThePageIsMadeSeldomHoweverManyAsk) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) EXPECT_THAT(Ask(kGet), EndsWith("page\n"));
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(page_count_, 1 + took / MetricsServer::kPageAgeMax);
}

TEST_F(MetricsServerTest, StopsWhileOthersAreConnected) {
  const UniqueFd silent = Connect();
  const UniqueFd asking = Connect();
  Send(asking, "GET ");
  server_->Stop();
  EXPECT_EQ(Receive(silent), "closed");
  EXPECT_THAT(Receive(asking), Not(HasSubstr("200")));
}

}  // namespace
}  // namespace msitd::metrics
