// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/ask/query/interrupts.h"
#include "client/ask/text/text.h"
#include "client/msitctl/command_line.h"
#include "client/msitctl/web/browser.h"
#include "client/web/method_table.h"
#include "client/web/web_server.h"
#include "protos/status/status.h"

namespace msitd::msitctl {
namespace {

// The next port after that of daemons. If it is in use, any other one.
constexpr int kDefaultPort = 7742;
constexpr std::chrono::hours kWait{1};

struct WebFlags {
  std::string listen;
  std::vector<std::string> hosts;
  bool opens = false;
};

absl::StatusOr<web::WebOptions> ParseListen(std::string_view text) {
  const auto bad = [text](std::string_view why) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "--listen \"{}\": {}; use 127.0.0.1:PORT or [::1]:PORT",
                      text, why);
  };
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return bad("no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  web::WebOptions options;
  const char* const end = port.data() + port.size();
  const auto [stop, error] = std::from_chars(port.data(), end, options.port);
  if (error != std::errc() || stop != end || options.port < 0 ||
      options.port > 65535) {
    return bad("the port is not in 0..65535");
  }
  if (host == "localhost") host = "127.0.0.1";
  if (host == "[::1]") host = "::1";
  if (host != "::1" && !host.starts_with("127.")) {
    return bad(
        "the page has no TLS, so it is served on this machine only. From "
        "another machine: ssh -L 7742:127.0.0.1:7742 HOST");
  }
  options.address = std::string(host);
  return options;
}

// Calls have the timeout of the command. The server has none.
web::Daemons DaemonsOf(const Invocation& invocation) {
  web::Daemons daemons{invocation.options().connection,
                       invocation.options().nodes};
  const auto limit_calls = [](ask::ConnectionOptions& options) {
    const auto timeout = std::exchange(options.timeout, std::nullopt);
    if (!options.call_timeout.has_value()) options.call_timeout = timeout;
  };
  limit_calls(daemons.connection);
  for (ask::ConnectionOptions& node : daemons.nodes) limit_calls(node);
  return daemons;
}

absl::StatusOr<std::unique_ptr<web::WebServer>> StartServer(
    Invocation& invocation, const WebFlags& flags, web::WebOptions options) {
  auto server = web::WebServer::Start(options, DaemonsOf(invocation),
                                      invocation.interrupts());
  if (!flags.listen.empty() || !absl::IsUnavailable(server.status())) {
    return server;
  }
  options.port = 0;
  return web::WebServer::Start(options, DaemonsOf(invocation),
                               invocation.interrupts());
}

ask::Outcome ServeWeb(Invocation& invocation, const WebFlags& flags) {
  web::WebOptions options;
  options.port = kDefaultPort;
  if (!flags.listen.empty()) {
    MSITCTL_ASSIGN_OR_USAGE(options, ParseListen(flags.listen));
  }
  options.hosts = flags.hosts;
  // A signal ends the calls in progress, and then the server.
  const ask::Interrupts::Hold hold(invocation.interrupts());
  auto server = StartServer(invocation, flags, options);
  if (!server.ok()) {
    return ask::LocalError(fmt::format("listen on {}:{}: {}", options.address,
                                       options.port, Message(server.status())));
  }
  invocation.out().Write((*server)->url() + "\n");
  MSITCTL_RETURN_IF_FAILED(invocation.out().Finish());
  fmt::print(stderr,
             "msitctl: serving until Ctrl-C. The address contains a token with "
             "which anyone on this machine has your permissions\n");
  std::optional<BrowserPage> page;
  if (flags.opens) {
    auto opened = BrowserPage::Open((*server)->url());
    if (opened.ok()) {
      page.emplace(*std::move(opened));
    } else {
      fmt::print(stderr, "msitctl: note: no browser was opened: {}\n",
                 ask::Printable(Message(opened.status())));
    }
  }
  while (!invocation.interrupts().WaitFor(kWait)) {
  }
  return {};
}

}  // namespace

void AddWebCommand(CommandLine& line) {
  auto flags = std::make_shared<WebFlags>();
  CLI::App& verb = line.AddVerb(
      line.app(),
      {.name = "web",
       .summary = "Serve a page that shows runs and comparisons, until "
                  "Ctrl-C. Prints its address.",
       .examples = "msitctl web --open\n"
                   "msitctl --endpoints node1:7741,node2:7741 web "
                   "--listen 127.0.0.1:8000",
       .rpcs = web::CalledMethods(),
       .takes_nodes = true},
      [flags](Invocation& invocation) { return ServeWeb(invocation, *flags); });
  verb.add_option("--listen", flags->listen,
                  "Address of this machine to listen on; port 0 is any free "
                  "port. Default: 127.0.0.1:7742, or any free port if that is "
                  "in use")
      ->type_name("HOST:PORT");
  verb.add_option("--allow-host", flags->hosts,
                  "Name by which a proxy reaches the page, in addition to "
                  "localhost; can be given several times")
      ->type_name("HOST");
  verb.add_flag("--open", flags->opens, "Open the page in the browser");
}

}  // namespace msitd::msitctl
