// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "protos/endpoint/personal_daemon.h"

namespace msitd::ask {

struct ConnectionOptions;

// Sets the daemon of a connection by the rule of all clients
// (protos/endpoint/endpoint_rule.h). `given` is the endpoint that a flag names;
// "" if there is none. The TLS options must be set: with TLS, the default is
// kDefaultAddress, because sockets are not encrypted.
//
// Neither connects nor starts a daemon; Connection::Connect does both.
//
// Errors: those of ParseEndpoint.
absl::Status ChooseDaemon(std::string_view given, endpoint::Start start,
                          ConnectionOptions& options);

}  // namespace msitd::ask
