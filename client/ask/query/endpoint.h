// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::ask {

// The daemon of this machine with TLS.
inline constexpr char kDefaultAddress[] = "127.0.0.1:7741";

// Checks `unix:PATH`, `/PATH`, `HOST:PORT` or `[V6]:PORT`, each also after
// `dns:///`, and returns the target for a gRPC channel. If PATH is a folder, it
// stands for the socket that a daemon makes in it. INVALID_ARGUMENT for
// anything else.
absl::StatusOr<std::string> ParseEndpoint(std::string_view endpoint);

// Parses "500ms", "30s", "2m", "1.5h", "2d", "1w", or several of these with the
// largest first, as HumanDuration writes them: "2d00h". A bare number is in
// seconds. INVALID_ARGUMENT for anything else, and if the result is not above
// zero or exceeds a year.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);

// Returns the folder of the socket that `unix:PATH` or `/PATH` names.
std::string SocketFolder(std::string_view endpoint);

// Returns the shell command that starts a daemon at `endpoint`. Empty if that
// would be on another machine.
std::string StartCommand(std::string_view endpoint);

}  // namespace msitd::ask
