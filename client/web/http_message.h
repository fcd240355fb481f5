// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace msitd::web {

// A complete request of a client. All fields are foreign bytes.
struct HttpRequest {
  std::string method;  // `GET`
  std::string target;  // The path with its query, as it was sent.
  // Fields of the header; empty if they are absent.
  std::string host;
  std::string origin;
  std::string authorization;
  std::string content_type;
  std::string fetch_site;  // Sec-Fetch-Site
  std::string body;
};

// A complete response.
struct HttpResponse {
  int status = 200;
  std::string_view content_type;  // Must outlive the call that sends it.
  std::string_view body;          // Must outlive the call that sends it.
};

// Answers one request, with one call of Send, or with Begin and calls of Write.
// Used by one thread.
class HttpReply {
 public:
  virtual ~HttpReply() = default;

  virtual void Send(const HttpResponse& response) = 0;

  // Begins a response of unknown length, whose status is 200. Begin and Write
  // return false once the client has closed the connection or reads too slowly;
  // the caller then stops.
  virtual bool Begin(std::string_view content_type) = 0;
  virtual bool Write(std::string_view bytes) = 0;
};

// Called by the thread of a connection; several connections call it at the same
// time.
using HttpHandler = std::function<void(const HttpRequest&, HttpReply&)>;

}  // namespace msitd::web
