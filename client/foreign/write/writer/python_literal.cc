// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/python_literal.h"

#include <nlohmann/json.hpp>
#include <utility>

namespace msitd::write {
namespace {

using Kind = PythonLiteral::Kind;

constexpr int kDepthMax = 32;

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

bool IsWord(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z') || c == '+' || c == '-' || c == '.';
}

bool IsNumber(std::string_view word) {
  if (word == "nan" || word == "inf" || word == "-inf") return true;
  return word.find_first_not_of("-+.e0123456789") == word.npos &&
         nlohmann::json::accept(word);
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  std::optional<PythonLiteral> Whole() {
    auto out = Any(0);
    SkipBlanks();
    return text_.empty() ? out : std::nullopt;
  }

 private:
  void SkipBlanks() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
  }

  bool Take(char c) {
    SkipBlanks();
    if (text_.empty() || text_.front() != c) return false;
    text_.remove_prefix(1);
    return true;
  }

  std::optional<PythonLiteral> Any(int depth) {
    if (depth > kDepthMax) return std::nullopt;
    if (Take('[')) return Items(']', depth);
    if (Take('(')) return Items(')', depth);
    if (Take('{')) return Dict(depth);
    if (!text_.empty() && (text_.front() == '\'' || text_.front() == '"')) {
      auto text = Text();
      if (!text) return std::nullopt;
      return PythonLiteral{Kind::kText, *std::move(text), {}, {}};
    }
    return Word();
  }

  std::optional<PythonLiteral> Word() {
    size_t size = 0;
    while (size < text_.size() && IsWord(text_[size])) ++size;
    const std::string_view word = text_.substr(0, size);
    text_.remove_prefix(size);
    if (word == "None") return PythonLiteral();
    const bool is_bool = word == "True" || word == "False";
    if (!is_bool && !IsNumber(word)) return std::nullopt;
    return PythonLiteral{
        is_bool ? Kind::kBool : Kind::kNumber, std::string(word), {}, {}};
  }

  std::optional<PythonLiteral> Items(char close, int depth) {
    PythonLiteral out;
    out.kind = Kind::kList;
    while (!Take(close)) {
      // A tuple with one item has a trailing comma.
      if (!out.items.empty() && !Take(',')) return std::nullopt;
      if (!out.items.empty() && Take(close)) break;
      auto item = Any(depth + 1);
      if (!item) return std::nullopt;
      out.items.push_back(*std::move(item));
    }
    return out;
  }

  std::optional<PythonLiteral> Dict(int depth) {
    PythonLiteral out;
    out.kind = Kind::kDict;
    while (!Take('}')) {
      if (!out.items.empty() && !Take(',')) return std::nullopt;
      SkipBlanks();
      auto key = Text();
      if (!key || !Take(':')) return std::nullopt;
      auto item = Any(depth + 1);
      if (!item) return std::nullopt;
      out.keys.push_back(*std::move(key));
      out.items.push_back(*std::move(item));
    }
    return out;
  }

  std::optional<std::string> Text() {
    if (text_.empty()) return std::nullopt;
    const char quote = text_.front();
    if (quote != '\'' && quote != '"') return std::nullopt;
    std::string out;
    for (size_t i = 1; i < text_.size(); ++i) {
      if (text_[i] == quote) {
        text_.remove_prefix(i + 1);
        return out;
      }
      if (text_[i] != '\\') {
        out += text_[i];
      } else if (!Escape(i, out)) {
        return std::nullopt;
      }
    }
    return std::nullopt;
  }

  // Parses the escape sequence at the backslash at `i`, and leaves `i` at its
  // end.
  bool Escape(size_t& i, std::string& out) const {
    if (++i >= text_.size()) return false;
    switch (text_[i]) {
      case 'n':
        out += '\n';
        return true;
      case 'r':
        out += '\r';
        return true;
      case 't':
        out += '\t';
        return true;
      case '\\':
      case '\'':
      case '"':
        out += text_[i];
        return true;
      case 'x':
        break;
      default:
        return false;
    }
    if (i + 2 >= text_.size()) return false;
    const int high = HexDigit(text_[i + 1]);
    const int low = HexDigit(text_[i + 2]);
    // Characters beyond ASCII are not written in this form.
    if (high < 0 || high > 7 || low < 0) return false;
    out += static_cast<char>(high * 16 + low);
    i += 2;
    return true;
  }

  std::string_view text_;
};

}  // namespace

const PythonLiteral* PythonLiteral::Find(std::string_view key) const {
  for (size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

std::optional<PythonLiteral> ParsePythonLiteral(std::string_view text) {
  return Reader(text).Whole();
}

void WriteLiteral(const PythonLiteral& literal, JsonWriter& out) {
  switch (literal.kind) {
    case Kind::kNone:
      out.Null();
      return;
    case Kind::kBool:
      out.Bool(literal.text == "True");
      return;
    case Kind::kNumber:
      if (literal.text == "nan") {
        out.PythonNumber("NaN");
      } else if (literal.text == "inf") {
        out.PythonNumber("Infinity");
      } else if (literal.text == "-inf") {
        out.PythonNumber("-Infinity");
      } else {
        out.Raw(literal.text);
      }
      return;
    case Kind::kText:
      out.Text(literal.text);
      return;
    case Kind::kList:
      out.BeginList();
      for (const PythonLiteral& item : literal.items) WriteLiteral(item, out);
      out.EndList();
      return;
    case Kind::kDict:
      out.BeginObject();
      for (size_t i = 0; i < literal.keys.size(); ++i) {
        WriteLiteral(literal.items[i], out.Key(literal.keys[i]));
      }
      out.EndObject();
  }
}

}  // namespace msitd::write
