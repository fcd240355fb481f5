// SPDX-License-Identifier: Apache-2.0
#include "client/msit/command/logger.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <utility>

namespace msitd::msit_command {
namespace {

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
      return "ERROR";
    case LogLevel::kCritical:
      return "CRITICAL";
  }
  return "";
}

// Returns `2026-11-23 09:41:07,123`.
std::string LocalTime() {
  using std::chrono::milliseconds;
  const auto now = std::chrono::system_clock::now();
  const auto milli = std::chrono::duration_cast<milliseconds>(
                         now.time_since_epoch() % std::chrono::seconds(1))
                         .count();
  const std::time_t seconds = std::chrono::system_clock::to_time_t(now);
  std::tm parts = {};
  localtime_r(&seconds, &parts);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02},{:03}",
                     parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec, milli);
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

}  // namespace

std::optional<LogLevel> ParseLogLevel(std::string_view word) {
  if (word == "debug") return LogLevel::kDebug;
  if (word == "info") return LogLevel::kInfo;
  if (word == "warning") return LogLevel::kWarning;
  if (word == "error") return LogLevel::kError;
  if (word == "fatal" || word == "critical") return LogLevel::kCritical;
  return std::nullopt;
}

Logger::Logger(std::string name, LogLevel level, std::FILE* file,
               LogStyle style)
    : name_(std::move(name)), level_(level), file_(file), style_(style) {}

void Logger::InfoBlock(std::string_view text) {
  WriteLine(LogLevel::kInfo, text);
}

void Logger::Write(LogLevel level, std::string_view message) {
  std::string text(message);
  std::replace_if(text.begin(), text.end(), IsControl, '_');
  WriteLine(level, text);
}

void Logger::WriteLine(LogLevel level, std::string_view text) {
  if (level < level_) return;
  std::string time = LocalTime();
  if (style_ == LogStyle::kMsprobe) {
    time.resize(time.find(','));
    fmt::print(file_, "{} ({}) [{}] {}\n", time, getpid(), LevelName(level),
               text);
  } else {
    fmt::print(file_, "{} - {} - {} - {} - {}\n", time, getpid(), name_,
               LevelName(level), text);
  }
  std::fflush(file_);
}

std::string Quoted(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') out += '\\';
    out += c;
  }
  return out + quote;
}

}  // namespace msitd::msit_command
