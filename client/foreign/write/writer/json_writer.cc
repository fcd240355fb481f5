// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/json_writer.h"

#include <fmt/format.h>

#include <cmath>

namespace msitd::write {
namespace {

constexpr char32_t kReplacement = 0xfffd;

// Removes and returns a UTF-8 character at the beginning of `text`. If it is
// not valid, removes one byte and returns kReplacement.
char32_t TakeCharacter(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const size_t size = first < 0x80             ? 1
                      : (first & 0xe0) == 0xc0 ? 2
                      : (first & 0xf0) == 0xe0 ? 3
                      : (first & 0xf8) == 0xf0 ? 4
                                               : 0;
  char32_t out = size == 1 ? first : first & 0xff >> (size + 1);
  bool is_good = size != 0 && size <= text.size();
  for (size_t i = 1; is_good && i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    is_good = (byte & 0xc0) == 0x80;
    out = out << 6 | (byte & 0x3f);
  }
  text.remove_prefix(is_good ? size : 1);
  return is_good ? out : kReplacement;
}

}  // namespace

std::string PythonFloat(double value) {
  if (std::isnan(value)) return "nan";
  std::string out = fmt::format("{}", value);
  if (out.find_first_not_of("-0123456789") == std::string::npos) out += ".0";
  return out;
}

void JsonWriter::NewLine() {
  if (indent_ == 0) return;
  text_ += '\n';
  text_.append(has_items_.size() * static_cast<size_t>(indent_), ' ');
}

void JsonWriter::BeforeItem() {
  if (is_behind_key_) {
    is_behind_key_ = false;
    return;
  }
  if (has_items_.empty()) return;
  if (has_items_.back()) text_ += indent_ == 0 ? ", " : ",";
  has_items_.back() = true;
  NewLine();
}

JsonWriter& JsonWriter::Begin(char bracket) {
  BeforeItem();
  text_ += bracket;
  has_items_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::End(char bracket) {
  const bool has_items = has_items_.back();
  has_items_.pop_back();
  if (has_items) NewLine();
  text_ += bracket;
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  BeforeItem();
  AppendQuoted(key);
  text_ += ": ";
  is_behind_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::Text(std::string_view text) {
  BeforeItem();
  AppendQuoted(text);
  return *this;
}

JsonWriter& JsonWriter::Number(double value) {
  if (std::isnan(value)) return PythonNumber("NaN");
  if (std::isinf(value)) {
    return PythonNumber(value > 0 ? "Infinity" : "-Infinity");
  }
  return Raw(PythonFloat(value));
}

JsonWriter& JsonWriter::PythonNumber(std::string_view text) {
  const bool is_word = text.find_first_of("NI") != std::string_view::npos;
  return is_word && is_legal_ ? Text(text) : Raw(text);
}

JsonWriter& JsonWriter::Raw(std::string_view json) {
  BeforeItem();
  text_ += json;
  return *this;
}

void JsonWriter::AppendQuoted(std::string_view text) {
  text_ += '"';
  while (!text.empty()) {
    const char32_t c = TakeCharacter(text);
    switch (c) {
      case '"':
        text_ += "\\\"";
        break;
      case '\\':
        text_ += "\\\\";
        break;
      case '\n':
        text_ += "\\n";
        break;
      case '\r':
        text_ += "\\r";
        break;
      case '\t':
        text_ += "\\t";
        break;
      case '\b':
        text_ += "\\b";
        break;
      case '\f':
        text_ += "\\f";
        break;
      default:
        if (c >= 0x20 && c < 0x7f) {
          text_ += static_cast<char>(c);
        } else if (c < 0x10000) {
          text_ += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
        } else {
          const uint32_t rest = static_cast<uint32_t>(c) - 0x10000;
          text_ += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + (rest >> 10),
                               0xdc00 + (rest & 0x3ff));
        }
    }
  }
  text_ += '"';
}

}  // namespace msitd::write
