// SPDX-License-Identifier: Apache-2.0
#include "protos/base/tensor_statistics.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <system_error>

namespace msitd {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || IsDigit(c) || c == '_';
}

bool IsName(std::string_view name) {
  return !name.empty() && name.size() <= kStatisticNameBytesMax &&
         name[0] >= 'a' && name[0] <= 'z' &&
         std::all_of(name.begin(), name.end(), IsNameCharacter);
}

// Parses one text from start to end.
class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  // Consumes `c` and the blanks before it.
  bool Take(char c) {
    SkipBlanks();
    if (rest_.empty() || rest_[0] != c) return false;
    rest_.remove_prefix(1);
    return true;
  }

  bool TakeStatistic(TensorStatistic& out) {
    return TakeString(out.name) && IsName(out.name) && Take(':') &&
           TakeValue(out);
  }

  bool IsAtEnd() {
    SkipBlanks();
    return rest_.empty();
  }

 private:
  void SkipBlanks() {
    const size_t blanks = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(std::min(blanks, rest_.size()));
  }

  bool TakeString(std::string_view& out) {
    if (!Take('"')) return false;
    const size_t end = rest_.find('"');
    if (end > kStatisticTextBytesMax) return false;
    out = rest_.substr(0, end);
    rest_.remove_prefix(end + 1);
    return std::all_of(out.begin(), out.end(), [](char c) {
      return c >= ' ' && c <= '~' && c != '\\';
    });
  }

  size_t DigitsAt(size_t at) const {
    size_t end = at;
    while (end < rest_.size() && IsDigit(rest_[end])) ++end;
    return end - at;
  }

  char At(size_t at) const { return at < rest_.size() ? rest_[at] : '\0'; }

  // Returns the length of the JSON number at the start of the remaining text; 0
  // if there is none.
  size_t NumberBytes() const {
    size_t at = At(0) == '-' ? 1 : 0;
    const size_t digits = DigitsAt(at);
    if (digits == 0 || (digits > 1 && At(at) == '0')) return 0;
    at += digits;
    if (At(at) == '.') {
      const size_t places = DigitsAt(at + 1);
      if (places == 0) return 0;
      at += 1 + places;
    }
    if (At(at) != 'e' && At(at) != 'E') return at;
    ++at;
    if (At(at) == '+' || At(at) == '-') ++at;
    const size_t exponent = DigitsAt(at);
    return exponent == 0 ? 0 : at + exponent;
  }

  bool TakeValue(TensorStatistic& out) {
    SkipBlanks();
    out.is_string = At(0) == '"';
    if (out.is_string) return TakeString(out.text);
    size_t bytes = NumberBytes();
    for (const std::string_view word : {"true", "false"}) {
      if (rest_.starts_with(word)) bytes = word.size();
    }
    out.text = rest_.substr(0, bytes);
    rest_.remove_prefix(bytes);
    return bytes > 0 && bytes <= kStatisticTextBytesMax;
  }

  std::string_view rest_;
};

}  // namespace

bool IsChecksum(std::string_view name) {
  return name == "crc32" || name == "xor";
}

std::optional<std::vector<TensorStatistic>> ParseTensorStatistics(
    std::string_view text) {
  Parser parser(text);
  std::vector<TensorStatistic> out;
  if (!parser.Take('{')) return std::nullopt;
  bool is_over = parser.Take('}');
  while (!is_over) {
    TensorStatistic next;
    if (out.size() == kTensorStatisticsMax || !parser.TakeStatistic(next) ||
        std::any_of(out.begin(), out.end(), [&next](const auto& before) {
          return before.name == next.name;
        })) {
      return std::nullopt;
    }
    out.push_back(next);
    is_over = parser.Take('}');
    if (!is_over && !parser.Take(',')) return std::nullopt;
  }
  if (!parser.IsAtEnd()) return std::nullopt;
  return out;
}

std::string PrintTensorStatistics(std::span<const TensorStatistic> statistics) {
  std::string out = "{";
  for (const TensorStatistic& one : statistics) {
    if (out.size() > 1) out += ", ";
    const std::string_view quote = one.is_string ? "\"" : "";
    out.append("\"").append(one.name).append("\": ");
    out.append(quote).append(one.text).append(quote);
  }
  return out + "}";
}

std::optional<double> NumberOf(const TensorStatistic& statistic) {
  const std::string_view text = statistic.text;
  if (statistic.is_string) {
    if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text == "inf") return std::numeric_limits<double>::infinity();
    if (text == "-inf") return -std::numeric_limits<double>::infinity();
    return std::nullopt;
  }
  if (text == "true") return 1;
  if (text == "false") return 0;
  double out = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size()) {
    return std::nullopt;
  }
  return out;
}

}  // namespace msitd
