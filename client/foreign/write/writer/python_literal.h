// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/foreign/write/writer/json_writer.h"

namespace msitd::write {

// A Python constant that JSON can also represent.
struct PythonLiteral {
  enum class Kind : uint8_t { kNone, kBool, kNumber, kText, kList, kDict };

  Kind kind = Kind::kNone;
  // `True` or `False`, the text of a number, or the value of a text.
  std::string text;
  std::vector<PythonLiteral> items;  // The items of a list, a tuple or a dict.
  std::vector<std::string> keys;     // The keys of a dict.

  // Returns the item of a dict with this key; null if there is none.
  const PythonLiteral* Find(std::string_view key) const;
};

// Parses the repr of a Python constant: None, a bool, a number, a text, a list,
// a tuple, or a dict whose keys are texts. Returns nothing for any other text,
// and beyond a nesting depth of 32.
std::optional<PythonLiteral> ParsePythonLiteral(std::string_view text);

// Writes the constant as Python's json module does.
void WriteLiteral(const PythonLiteral& literal, JsonWriter& out);

}  // namespace msitd::write
