// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/details/log_msg.h>

#include <chrono>
#include <string>

namespace msitd::log {

// Formats a time in UTC, such as "2026-11-22T14:14:21.000Z".
std::string TimeText(std::chrono::system_clock::time_point time);

// Returns a message as a JSON object on one line:
//
//   {"time":"2026-11-22T14:14:21.000Z","level":"info","module":"server",
//    "event":"store open","fields":{"runs":"3","data_dir":"/var/lib/msitd"}}
//
// The event is the text before the first `key=`. A value may be in single
// quotes. All values are JSON strings. Bytes that are not valid UTF-8 are
// replaced.
std::string JsonLine(const spdlog::details::log_msg& message);

}  // namespace msitd::log
