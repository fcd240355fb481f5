// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/sinks/base_sink.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "daemon/log/log.h"

namespace msitd::log {

// The sink of all loggers. Limits the number of lines that each module writes
// at each level, and keeps the most recent lines for diagnostics. Thread-safe.
class LogSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Lines per window of one module at one level. The next line of that module
  // and level after the window reports how many lines were suppressed.
  static constexpr uint64_t kWindowLinesMax = 512;
  static constexpr std::chrono::seconds kWindow{10};
  // Number of recent lines kept, and bytes kept of each line.
  static constexpr size_t kRecentLinesMax = 1000;
  static constexpr size_t kRecentLineBytesMax = 1024;

  // Borrows `file`, which must outlive the sink.
  LogSink(std::FILE* file, Format format) : file_(file), format_(format) {}

  // Returns the most recent lines, oldest first, as text with timestamps and
  // without line ends.
  std::vector<std::string> Recent();

  // Totals since the start: lines written, indexed by spdlog's level number,
  // and lines suppressed.
  struct Counts {
    std::array<uint64_t, SPDLOG_LEVEL_OFF + 1> written = {};
    uint64_t suppressed = 0;
  };
  Counts Count();

 private:
  struct Window {
    spdlog::log_clock::time_point begin;
    uint64_t written_count = 0;
    uint64_t suppressed_count = 0;
  };

  void sink_it_(const spdlog::details::log_msg& message) override;
  void flush_() override;
  // Returns false if the line exceeds the limit. Sets `suppressed` to the
  // number of lines that were suppressed before this one.
  bool Admit(const spdlog::details::log_msg& message, uint64_t& suppressed);
  void Write(const spdlog::details::log_msg& message);
  void Keep(const spdlog::details::log_msg& message);

  std::FILE* const file_;
  const Format format_;

  // Guarded by the mutex of the base class.
  std::map<std::pair<std::string, int>, Window, std::less<>> windows_;
  std::deque<std::string> recent_;
  Counts counts_;
};

}  // namespace msitd::log
