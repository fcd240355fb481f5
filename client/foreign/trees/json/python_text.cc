// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/json/python_text.h"

#include <charconv>
#include <cstdint>

#include "protos/status/status.h"

namespace msitd::trees {
namespace {

std::string_view TextOfNumber(std::string_view number) {
  if (number == "NaN") return "nan";
  if (number == "Infinity") return "inf";
  if (number == "-Infinity") return "-inf";
  return number;
}

// Returns true for an integer that does not fit into 64 bits.
bool IsLong(std::string_view number) {
  if (number.find_first_of(".eEnN") != std::string_view::npos) return false;
  int64_t out = 0;
  const auto result =
      std::from_chars(number.data(), number.data() + number.size(), out);
  return result.ec == std::errc::result_out_of_range;
}

void Append(const JsonValue& value, std::string& out) {
  switch (value.type) {
    case JsonToken::kObjectBegin:
    case JsonToken::kArrayBegin:
      out += value.IsObject() ? '{' : '[';
      for (size_t i = 0; i < value.items.size(); ++i) {
        if (i > 0) out += ", ";
        if (value.IsObject()) out += ReprOfText(value.keys[i]) + ": ";
        Append(value.items[i], out);
      }
      out += value.IsObject() ? '}' : ']';
      break;
    case JsonToken::kString:
      out += ReprOfText(value.text);
      break;
    default:
      out += DescribeJson(value).text;
  }
}

}  // namespace

PythonValue DescribeJson(const JsonValue& value) {
  switch (value.type) {
    case JsonToken::kTrue:
      return {RecordKind::kNumber, "True"};
    case JsonToken::kFalse:
      return {RecordKind::kNumber, "False"};
    case JsonToken::kNull:
      return {RecordKind::kNone, "None"};
    case JsonToken::kString:
      return {RecordKind::kText, WithoutNul(value.text)};
    case JsonToken::kNumber: {
      std::string text(TextOfNumber(value.text));
      const bool is_long = IsLong(text);
      return {is_long ? RecordKind::kOther : RecordKind::kNumber,
              std::move(text)};
    }
    default:
      return {RecordKind::kOther, ReprOfJson(value)};
  }
}

std::string ReprOfJson(const JsonValue& value) {
  std::string out;
  Append(value, out);
  return out;
}

std::string ReprOfText(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const bool has_double = text.find('"') != std::string_view::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      out += fmt::format("\\x{:02x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out + quote;
}

std::string WithoutNul(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\0') {
      out += "\\x00";
    } else {
      out += c;
    }
  }
  return out;
}

std::optional<DType> ParseTorchDType(std::string_view name) {
  constexpr std::string_view kTorch = "torch.";
  if (name.starts_with(kTorch)) name.remove_prefix(kTorch.size());
  std::string lower(name);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return ParseDType(lower);
}

}  // namespace msitd::trees
