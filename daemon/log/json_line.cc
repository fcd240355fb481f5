// SPDX-License-Identifier: Apache-2.0
#include "daemon/log/json_line.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

namespace msitd::log {
namespace {

using Json = nlohmann::ordered_json;

bool IsKeyByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
}

// Returns the length of the key at `at` if a word of the form `key=` begins
// there; otherwise 0.
size_t KeyBytesAt(std::string_view text, size_t at) {
  if (at > 0 && text[at - 1] != ' ') return 0;
  size_t end = at;
  while (end < text.size() && IsKeyByte(text[end])) ++end;
  return end > at && end < text.size() && text[end] == '=' ? end - at : 0;
}

// Returns the position of the next `key=`, or the end of the text.
size_t NextKey(std::string_view text, size_t from) {
  for (size_t at = from; at < text.size(); ++at) {
    if (KeyBytesAt(text, at) > 0) return at;
  }
  return text.size();
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// Returns the position where the value at `begin` ends. A quoted value ends at
// a quote that is followed by the next key or by the end of the text, so the
// value may contain quotes.
size_t ValueEnd(std::string_view text, size_t begin) {
  if (begin >= text.size() || text[begin] != '\'') {
    return NextKey(text, begin);
  }
  for (size_t at = begin + 1; at < text.size(); ++at) {
    if (text[at] != '\'') continue;
    const bool is_last = at + 1 == text.size();
    if (is_last || (text[at + 1] == ' ' && KeyBytesAt(text, at + 2) > 0)) {
      return at + 1;
    }
  }
  return text.size();
}

std::string_view Unquoted(std::string_view value) {
  if (value.size() >= 2 && value.front() == '\'' && value.back() == '\'') {
    return value.substr(1, value.size() - 2);
  }
  return value;
}

Json Fields(std::string_view text, size_t at) {
  Json out = Json::object();
  while (at < text.size()) {
    const size_t key_bytes = KeyBytesAt(text, at);
    if (key_bytes == 0) {
      at = NextKey(text, at + 1);
      continue;
    }
    const std::string key(text.substr(at, key_bytes));
    const size_t begin = at + key_bytes + 1;
    const size_t end = ValueEnd(text, begin);
    out[key] = std::string(Unquoted(Trimmed(text.substr(begin, end - begin))));
    at = NextKey(text, end);
  }
  return out;
}

}  // namespace

std::string TimeText(std::chrono::system_clock::time_point time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto ms =
      std::chrono::floor<std::chrono::milliseconds>(time - seconds).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z",
                     fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)),
                     ms);
}

std::string JsonLine(const spdlog::details::log_msg& message) {
  const std::string_view text(message.payload.data(), message.payload.size());
  const auto level = spdlog::level::to_string_view(message.level);
  const size_t first = NextKey(text, 0);
  Json out;
  out["time"] = TimeText(message.time);
  out["level"] = std::string(level.data(), level.size());
  out["module"] =
      std::string(message.logger_name.data(), message.logger_name.size());
  out["event"] = std::string(Trimmed(text.substr(0, first)));
  if (first < text.size()) out["fields"] = Fields(text, first);
  constexpr int kOneLine = -1;
  return out.dump(kOneLine, ' ', /*ensure_ascii=*/false,
                  Json::error_handler_t::replace);
}

}  // namespace msitd::log
