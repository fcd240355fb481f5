// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/storage/archive/s3_test_server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

namespace msitd::storage {
namespace {

constexpr int kPollMs = 20;

// Waits until there is input. Returns false after `stops` is set.
bool AwaitInput(int socket, const std::atomic<bool>& stops) {
  while (!stops) {
    pollfd one{socket, POLLIN, 0};
    if (::poll(&one, 1, kPollMs) > 0) return true;
  }
  return false;
}

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

S3TestServer::Reply S3TestServer::Answer(int code, const std::string& body,
                                         const std::string& headers) {
  return {.bytes =
              fmt::format("HTTP/1.1 {} Said\r\nContent-Length: {}\r\n{}\r\n{}",
                          code, body.size(), headers, body)};
}

S3TestServer::S3TestServer(std::function<Reply(const Request&, size_t)> answer)
    : answer_(std::move(answer)),
      listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  socklen_t size = sizeof(address);
  if (::bind(listener_.get(), any, size) != 0 ||
      ::listen(listener_.get(), 64) != 0 ||
      ::getsockname(listener_.get(), any, &size) != 0) {
    std::abort();
  }
  port_ = ntohs(address.sin_port);
  acceptor_ = std::thread([this] { Accept(); });
}

S3TestServer::~S3TestServer() {
  stops_ = true;
  acceptor_.join();
  std::vector<std::thread> threads;
  {
    const MutexLock lock(mu_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

std::string S3TestServer::endpoint() const {
  return fmt::format("http://127.0.0.1:{}", port_);
}

std::vector<S3TestServer::Request> S3TestServer::requests() {
  const MutexLock lock(mu_);
  return requests_;
}

void S3TestServer::Accept() {
  while (AwaitInput(listener_.get(), stops_)) {
    const int connection = ::accept(listener_.get(), nullptr, nullptr);
    if (connection < 0) continue;
    const MutexLock lock(mu_);
    threads_.emplace_back([this, connection] {
      Serve(connection);
      ::close(connection);
    });
  }
}

void S3TestServer::Serve(int connection) {
  std::string buffer;
  while (true) {
    Request request;
    if (!ReadRequest(connection, buffer, request)) return;
    size_t number = 0;
    {
      const MutexLock lock(mu_);
      number = requests_.size();
      requests_.push_back(request);
    }
    const Reply reply = answer_(request, number);
    Send(connection, reply);
    while (reply.hangs && !stops_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(kPollMs));
    }
    if (reply.closes || reply.hangs) return;
  }
}

bool S3TestServer::ReadRequest(int connection, std::string& buffer,
                               Request& out) {
  const auto more = [&] {
    char bytes[4096];
    if (!AwaitInput(connection, stops_)) return false;
    const ssize_t count = ::recv(connection, bytes, sizeof(bytes), 0);
    if (count <= 0) return false;
    buffer.append(bytes, static_cast<size_t>(count));
    return true;
  };
  size_t head = 0;
  while ((head = buffer.find("\r\n\r\n")) == std::string::npos) {
    if (!more()) return false;
  }
  size_t line = buffer.find("\r\n");
  const std::string first = buffer.substr(0, line);
  const size_t space = first.find(' ');
  const std::string target =
      first.substr(space + 1, first.rfind(' ') - space - 1);
  const size_t question = std::min(target.find('?'), target.size());
  out.method = first.substr(0, space);
  out.path = target.substr(0, question);
  out.query = target.substr(std::min(question + 1, target.size()));
  while (line < head) {
    const size_t begin = line + 2;
    line = buffer.find("\r\n", begin);
    const std::string text = buffer.substr(begin, line - begin);
    const size_t colon = text.find(": ");
    if (colon == std::string::npos) continue;
    out.headers[Lower(text.substr(0, colon))] = text.substr(colon + 2);
  }
  buffer.erase(0, head + 4);
  if (out.headers.contains("expect")) {
    constexpr std::string_view kGoOn = "HTTP/1.1 100 Continue\r\n\r\n";
    (void)::send(connection, kGoOn.data(), kGoOn.size(), MSG_NOSIGNAL);
  }
  const size_t length =
      std::strtoul(out.headers["content-length"].c_str(), nullptr, 10);
  while (buffer.size() < length) {
    if (!more()) return false;
  }
  out.body = buffer.substr(0, length);
  buffer.erase(0, length);
  return true;
}

void S3TestServer::Send(int connection, const Reply& reply) {
  const size_t step = reply.pause.count() > 0 ? 1 : reply.bytes.size();
  for (size_t at = 0; at < reply.bytes.size() && !stops_; at += step) {
    if (::send(connection, reply.bytes.data() + at, step, MSG_NOSIGNAL) < 0) {
      return;
    }
    std::this_thread::sleep_for(reply.pause);
  }
}

}  // namespace msitd::storage
