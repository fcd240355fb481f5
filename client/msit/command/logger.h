// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

namespace msitd::msit_command {

// In Python's order and by Python's numbers.
enum class LogLevel {
  kDebug = 10,
  kInfo = 20,
  kWarning = 30,
  kError = 40,
  kCritical = 50,
};

// Takes the words of --log-level: debug, info, warning, error, fatal, critical.
std::optional<LogLevel> ParseLogLevel(std::string_view word);

// Writes the lines that scripts read from msit: the local time, the process,
// the name of the logger, the level and the message, each followed by " - ".
// Thread-compatible.
class Logger {
 public:
  // Borrows `file`.
  Logger(std::string name, LogLevel level, std::FILE* file);

  // Each control character of `message` becomes `_`.
  void Debug(std::string_view message) { Write(LogLevel::kDebug, message); }
  void Info(std::string_view message) { Write(LogLevel::kInfo, message); }
  void Warning(std::string_view message) { Write(LogLevel::kWarning, message); }
  void Error(std::string_view message) { Write(LogLevel::kError, message); }

  // At level INFO; `text` of our own keeps its line feeds.
  void InfoBlock(std::string_view text);

 private:
  void Write(LogLevel level, std::string_view message);
  void WriteLine(LogLevel level, std::string_view text);

  const std::string name_;
  const LogLevel level_;
  std::FILE* const file_;
};

// Returns `text` as Python's repr does: in single quotes, or in double quotes
// if it has single ones only. Control characters stay.
std::string Quoted(std::string_view text);

}  // namespace msitd::msit_command
