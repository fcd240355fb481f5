// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// JSON as Python's json module writes it, NaN and Infinity included.
namespace msitd::write {

// Returns a float as Python's repr does: "0.5", "1e-05", "nan".
std::string PythonFloat(double value);

// Builds a JSON text. Keys and values are written in the order of the calls,
// and the caller must follow the grammar. Thread-compatible.
class JsonWriter {
 public:
  // `indent` is the number of blanks for each level. 0 writes everything on one
  // line. `is_legal`: NaN and the infinities are texts, which all JSON parsers
  // accept.
  explicit JsonWriter(int indent, bool is_legal = false)
      : indent_(indent), is_legal_(is_legal) {}

  JsonWriter& BeginObject() { return Begin('{'); }
  JsonWriter& EndObject() { return End('}'); }
  JsonWriter& BeginList() { return Begin('['); }
  JsonWriter& EndList() { return End(']'); }
  JsonWriter& Key(std::string_view key);

  JsonWriter& Text(std::string_view text);
  JsonWriter& Number(int64_t value) { return Raw(std::to_string(value)); }
  JsonWriter& Number(double value);
  JsonWriter& Bool(bool value) { return Raw(value ? "true" : "false"); }
  JsonWriter& Null() { return Raw("null"); }
  // Writes the text of a number as Python's json module writes it, such as
  // `-Infinity`.
  JsonWriter& PythonNumber(std::string_view text);
  // Writes a value that is already JSON.
  JsonWriter& Raw(std::string_view json);

  // A key with a value.
  JsonWriter& Field(std::string_view key, std::string_view text) {
    return Key(key).Text(text);
  }
  JsonWriter& Field(std::string_view key, int64_t value) {
    return Key(key).Number(value);
  }

  // Returns and removes the text that was written so far.
  std::string Take() {
    std::string out = std::move(text_);
    text_.clear();
    return out;
  }
  size_t size() const { return text_.size(); }

 private:
  JsonWriter& Begin(char bracket);
  JsonWriter& End(char bracket);
  // Writes the separator before a value or a key.
  void BeforeItem();
  void NewLine();
  void AppendQuoted(std::string_view text);

  const int indent_;
  const bool is_legal_;
  std::string text_;
  // Whether each open list or object has items.
  std::vector<bool> has_items_;
  bool is_behind_key_ = false;
};

}  // namespace msitd::write
