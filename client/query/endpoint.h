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

// Checks `unix:PATH`, `HOST:PORT` or `[V6]:PORT` and returns what a gRPC
// channel takes. INVALID_ARGUMENT for anything else.
absl::StatusOr<std::string> ParseEndpoint(std::string_view endpoint);

// "500ms", "30s", "2m", "1.5h"; a bare number is in seconds. INVALID_ARGUMENT
// if `text` is none of these, not above zero or beyond a year.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);

}  // namespace msitd::ctl
