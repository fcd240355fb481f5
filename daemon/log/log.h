// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/logger.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "protos/status/mutex.h"

// One logger for each module, all of them on stderr. Messages are key=value;
// payload bytes never appear. Thread-safe.
namespace msitd::log {

class LogSink;

enum class Format {
  kText,  // key=value behind a few words.
  kJson,  // One object a line; see json_line.h.
};

// Sets the output and the lowest level of all loggers: "debug", "info", "warn"
// or "error". Leaves times out of text under systemd, whose journal has its
// own. Called once, before any logger is made.
void SetUp(std::string_view level, Format format = Format::kText);

// The sink of all loggers; null before SetUp.
LogSink* Sink();

// Returns the logger of `module`, which is registered with spdlog under that
// name; makes it if it does not exist.
std::shared_ptr<spdlog::logger> Get(const std::string& module);

// Bounds messages that clients can trigger, so that they cannot fill the log.
class Limiter {
 public:
  // Decides on one message. If it may be written, returns how many were
  // suppressed since the last one that was; otherwise returns nothing.
  std::optional<uint64_t> Admit(std::chrono::steady_clock::time_point now =
                                    std::chrono::steady_clock::now());

 private:
  static constexpr uint64_t kWindowMessagesMax = 64;
  static constexpr std::chrono::seconds kWindow{10};

  Mutex mu_;
  std::chrono::steady_clock::time_point window_begin_ ABSL_GUARDED_BY(mu_);
  uint64_t admitted_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t suppressed_ ABSL_GUARDED_BY(mu_) = 0;
};

}  // namespace msitd::log
