// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace msitd::ctl {

inline constexpr char kDefaultSocket[] = "/run/msitd/msitd.sock";
inline constexpr char kDefaultAddress[] = "127.0.0.1:7741";

// `unix:` and kDefaultSocket if there is such a file, else kDefaultAddress.
std::string DefaultEndpoint();

// Checks `unix:PATH`, `/PATH`, `HOST:PORT` or `[V6]:PORT` and returns what a
// gRPC channel takes. A PATH that is a folder stands for the socket that a
// daemon makes in it. INVALID_ARGUMENT for anything else.
absl::StatusOr<std::string> ParseEndpoint(std::string_view endpoint);

// "500ms", "30s", "2m", "1.5h", "2d", "1w", and several, the largest first, as
// HumanDuration writes them: "2d00h"; a bare number is in seconds.
// INVALID_ARGUMENT if `text` is none of these, not above zero or beyond a year.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);

// Returns what starts a daemon that would be reached there, as a line of a
// shell; empty if it would have to be another machine.
std::string StartCommand(std::string_view endpoint);

}  // namespace msitd::ctl
