// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace msitd::msit_command {

// The levels of Python, with Python's numbers.
enum class LogLevel {
  kDebug = 10,
  kInfo = 20,
  kWarning = 30,
  kError = 40,
  kCritical = 50,
};

// Parses a value of --log-level: debug, info, warning, error, fatal, critical.
std::optional<LogLevel> ParseLogLevel(std::string_view word);

// The format of log lines, which scripts parse.
enum class LogStyle {
  // The local time, the process, the name of the logger and the level, each
  // followed by " - ", and the message.
  kMsit,
  // `2026-11-23 09:41:07 (4711) [INFO] message`.
  kMsprobe,
};

// Writes log lines. Thread-compatible.
class Logger {
 public:
  // Borrows `file`.
  Logger(std::string name, LogLevel level, std::FILE* file,
         LogStyle style = LogStyle::kMsit);

  // Each control character of `message` is replaced by `_`.
  void Debug(std::string_view message) { Write(LogLevel::kDebug, message); }
  void Info(std::string_view message) { Write(LogLevel::kInfo, message); }
  void Warning(std::string_view message) { Write(LogLevel::kWarning, message); }
  void Error(std::string_view message) { Write(LogLevel::kError, message); }

  // Logs at level INFO. `text` is trusted and keeps its line feeds.
  void InfoBlock(std::string_view text);

 private:
  void Write(LogLevel level, std::string_view message);
  void WriteLine(LogLevel level, std::string_view text);

  const std::string name_;
  const LogLevel level_;
  std::FILE* const file_;
  const LogStyle style_;
};

// Returns `text` as Python's repr does: in single quotes, or in double quotes
// if it contains only single ones. Control characters are kept.
std::string Quoted(std::string_view text);

}  // namespace msitd::msit_command
