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

// Where all loggers write. Bounds how many lines each module writes at each
// level, whatever causes them, and keeps the last lines for who asks later.
// Thread-safe.
class LogSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  // Of a module, at a level, in a window. What is suppressed is counted by the
  // next line of that module and level behind the window.
  static constexpr uint64_t kWindowLinesMax = 512;
  static constexpr std::chrono::seconds kWindow{10};
  // What is kept: lines, and of each line bytes.
  static constexpr size_t kRecentLinesMax = 1000;
  static constexpr size_t kRecentLineBytesMax = 1024;

  // Borrows `file`.
  LogSink(std::FILE* file, Format format) : file_(file), format_(format) {}

  // The last lines, the oldest first, in text with the time, without line ends.
  std::vector<std::string> Recent();

  // Since the start: lines written by spdlog's number of their level, and lines
  // suppressed.
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
  // False if the line is one too many. Sets how many were so before it.
  bool Admit(const spdlog::details::log_msg& message, uint64_t& suppressed);
  void Write(const spdlog::details::log_msg& message);
  void Keep(const spdlog::details::log_msg& message);

  std::FILE* const file_;
  const Format format_;

  // Guarded by the mutex of the base.
  std::map<std::pair<std::string, int>, Window, std::less<>> windows_;
  std::deque<std::string> recent_;
  Counts counts_;
};

}  // namespace msitd::log
