// SPDX-License-Identifier: Apache-2.0
#include "client/web/web_server.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "client/web/api.h"
#include "client/web/http_server.h"
#include "client/web/page_files.h"
#include "client/web/request_guard.h"
#include "protos/status/status.h"

namespace msitd::web {
namespace {

constexpr std::string_view kApi = "/api/v1/";
constexpr std::string_view kTextType = "text/plain; charset=utf-8";

// The page loads only its own files and calls only this server. No other page
// may show it, and nothing of it is stored.
HttpServerOptions ToHttpOptions(const WebOptions& options) {
  HttpServerOptions out;
  out.address = options.address;
  out.port = options.port;
  out.fields = {
      {"Content-Security-Policy",
       "default-src 'none';script-src 'self';style-src 'self';img-src 'self';"
       "connect-src 'self';base-uri 'none';form-action 'none';"
       "frame-ancestors 'none'"},
      {"X-Content-Type-Options", "nosniff"},
      {"X-Frame-Options", "DENY"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
      {"Permissions-Policy", "camera=(), microphone=(), geolocation=()"},
      {"Cache-Control", "no-store"},
  };
  return out;
}

class PageServer final : public WebServer {
 public:
  PageServer(const WebOptions& options, Daemons daemons,
             ask::Interrupts& interrupts)
      : address_(options.address),
        token_(NewToken()),
        guard_(token_, options.hosts),
        pool_(std::move(daemons), interrupts),
        api_(pool_) {}

  absl::Status Listen(const WebOptions& options) {
    MSITD_ASSIGN_OR_RETURN(
        server_,
        HttpServer::Start(ToHttpOptions(options),
                          [this](const HttpRequest& request, HttpReply& reply) {
                            Answer(request, reply);
                          }));
    return absl::OkStatus();
  }

  std::string url() const override {
    const bool is_v6 = address_.find(':') != std::string::npos;
    return fmt::format("http://{}{}{}:{}/#token={}", is_v6 ? "[" : "", address_,
                       is_v6 ? "]" : "", server_->port(), token_);
  }

 private:
  void Answer(const HttpRequest& request, HttpReply& reply) {
    const std::string_view target = request.target;
    const bool is_call = target.starts_with(kApi);
    const auto refusal =
        is_call ? guard_.CheckCall(request) : guard_.CheckPage(request);
    if (refusal.has_value()) {
      return reply.Send({refusal->status, kTextType, refusal->why});
    }
    if (is_call) {
      return api_.Answer(target.substr(kApi.size()), request, reply);
    }
    const PageFile* const file = FindPageFile(target);
    if (file == nullptr) return reply.Send({404, kTextType, "no such file"});
    reply.Send({200, file->content_type, file->text});
  }

  const std::string address_;
  const std::string token_;
  const RequestGuard guard_;
  ConnectionPool pool_;
  Api api_;
  // Last, because its threads use the others.
  std::unique_ptr<HttpServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<WebServer>> WebServer::Start(
    const WebOptions& options, Daemons daemons, ask::Interrupts& interrupts) {
  auto server =
      std::make_unique<PageServer>(options, std::move(daemons), interrupts);
  MSITD_RETURN_IF_ERROR(server->Listen(options));
  return server;
}

}  // namespace msitd::web
