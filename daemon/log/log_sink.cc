// SPDX-License-Identifier: Apache-2.0
#include "daemon/log/log_sink.h"

#include <fmt/format.h>

#include <utility>

#include "daemon/log/json_line.h"

namespace msitd::log {
namespace {

std::string Text(spdlog::string_view_t view) {
  return {view.data(), view.size()};
}

}  // namespace

bool LogSink::Admit(const spdlog::details::log_msg& message,
                    uint64_t& suppressed) {
  Window& window = windows_[{Text(message.logger_name), message.level}];
  // A negative age means that the clock was set back.
  const auto age = message.time - window.begin;
  if (age >= kWindow || age < std::chrono::seconds(0)) {
    window.begin = message.time;
    window.written_count = 0;
    suppressed = std::exchange(window.suppressed_count, 0);
  }
  if (window.written_count >= kWindowLinesMax) {
    ++window.suppressed_count;
    ++counts_.suppressed;
    return false;
  }
  ++window.written_count;
  return true;
}

void LogSink::sink_it_(const spdlog::details::log_msg& message) {
  uint64_t suppressed = 0;
  if (!Admit(message, suppressed)) return;
  if (suppressed > 0) {
    const std::string note =
        fmt::format("lines were too many suppressed={}", suppressed);
    spdlog::details::log_msg line(message.time, message.source,
                                  message.logger_name, message.level, note);
    Write(line);
  }
  Write(message);
}

void LogSink::Write(const spdlog::details::log_msg& message) {
  ++counts_.written[static_cast<size_t>(message.level)];
  if (format_ == Format::kJson) {
    const std::string line = JsonLine(message) + "\n";
    std::fwrite(line.data(), 1, line.size(), file_);
  } else {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    std::fwrite(line.data(), 1, line.size(), file_);
  }
  std::fflush(file_);
  Keep(message);
}

void LogSink::Keep(const spdlog::details::log_msg& message) {
  const auto level = spdlog::level::to_string_view(message.level);
  std::string line =
      fmt::format("{} {} {}: {}", TimeText(message.time), Text(level),
                  Text(message.logger_name), Text(message.payload));
  if (line.size() > kRecentLineBytesMax) {
    line.resize(kRecentLineBytesMax);
    line += "...";
  }
  if (recent_.size() >= kRecentLinesMax) recent_.pop_front();
  recent_.push_back(std::move(line));
}

void LogSink::flush_() { std::fflush(file_); }

std::vector<std::string> LogSink::Recent() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return {recent_.begin(), recent_.end()};
}

LogSink::Counts LogSink::Count() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return counts_;
}

}  // namespace msitd::log
