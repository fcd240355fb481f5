// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "protos/text/duration_text.h"

namespace msitd::ask {

// The daemon of this machine with TLS.
inline constexpr char kDefaultAddress[] = "127.0.0.1:7741";

// Checks `unix:PATH`, `/PATH`, `HOST:PORT` or `[V6]:PORT`, each also after
// `dns:///`, and returns the target for a gRPC channel. If PATH is a folder, it
// stands for the socket that a daemon makes in it. INVALID_ARGUMENT for
// anything else.
absl::StatusOr<std::string> ParseEndpoint(std::string_view endpoint);

using text::ParseDuration;

// Returns the folder of the socket that `unix:PATH` or `/PATH` names.
std::string SocketFolder(std::string_view endpoint);

// Returns the shell command that starts a daemon at `endpoint`. Empty if that
// would be on another machine.
std::string StartCommand(std::string_view endpoint);

}  // namespace msitd::ask
