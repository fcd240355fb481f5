// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "protos/os/unique_fd.h"
#include "protos/status/mutex.h"

namespace msitd::storage {

// An HTTP server on loopback that sends the responses of the test. Thread-safe.
class S3TestServer {
 public:
  struct Request {
    std::string method;
    std::string path;
    std::string query;                           // As received.
    std::map<std::string, std::string> headers;  // Names are in lower case.
    std::string body;
  };

  struct Reply {
    std::string bytes = {};  // The complete response, including the head.
    bool closes = false;     // Closes the connection afterwards.
    bool hangs = false;      // Sends nothing more until the server stops.
    std::chrono::milliseconds pause{0};  // After each byte.
  };

  // Returns a response with a length.
  static Reply Answer(int code, const std::string& body = "",
                      const std::string& headers = "");

  // `answer` receives each request and its number, from 0. It is called on any
  // thread.
  explicit S3TestServer(std::function<Reply(const Request&, size_t)> answer);
  ~S3TestServer();

  std::string endpoint() const;
  std::vector<Request> requests() ABSL_LOCKS_EXCLUDED(mu_);

 private:
  void Accept();
  void Serve(int connection);
  bool ReadRequest(int connection, std::string& buffer, Request& out);
  void Send(int connection, const Reply& reply);

  const std::function<Reply(const Request&, size_t)> answer_;
  UniqueFd listener_;
  int port_ = 0;
  std::atomic<bool> stops_ = false;
  Mutex mu_;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
  std::thread acceptor_;
};

}  // namespace msitd::storage
