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

// Each module has its own logger; all loggers write to stderr. Messages consist
// of key=value pairs. Payload bytes are never logged. Thread-safe.
namespace msitd::log {

class LogSink;

enum class Format {
  kText,  // A few words followed by key=value pairs.
  kJson,  // One JSON object per line; see json_line.h.
};

// Sets the output and the lowest level of all loggers: "debug", "info", "warn"
// or "error". Text output has no timestamps under systemd because the journal
// adds its own. Must be called once, before any logger is created.
void SetUp(std::string_view level, Format format = Format::kText);

// Changes the lowest level of all loggers, also of those created later.
void SetLevel(std::string_view level);

// Returns the sink of all loggers; null before SetUp.
LogSink* Sink();

// Returns the logger of `module`, which is registered with spdlog under that
// name. Creates the logger if it does not exist.
std::shared_ptr<spdlog::logger> Get(const std::string& module);

// Limits messages that clients can trigger, so that clients cannot fill the
// log.
class Limiter {
 public:
  // Decides whether a message may be written. If so, returns the number of
  // messages suppressed since the last one that was written; otherwise returns
  // nullopt.
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
