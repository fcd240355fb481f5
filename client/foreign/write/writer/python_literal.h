// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/foreign/write/writer/json_writer.h"

namespace msitd::write {

// A constant of Python that JSON has, too.
struct PythonLiteral {
  enum class Kind : uint8_t { kNone, kBool, kNumber, kText, kList, kDict };

  Kind kind = Kind::kNone;
  // `True` or `False`, a number as it is, or what a text stands for.
  std::string text;
  std::vector<PythonLiteral> items;  // Of a list, a tuple or a dict.
  std::vector<std::string> keys;     // Of a dict.

  // The item of a dict with this key; null if there is none.
  const PythonLiteral* Find(std::string_view key) const;
};

// Reads what Python's repr writes of a constant: None, a bool, a number, a
// text, a list, a tuple, or a dict whose keys are texts. Nothing for any other
// text, and beyond a nesting of 32.
std::optional<PythonLiteral> ParsePythonLiteral(std::string_view text);

// Writes it as Python's json module does.
void WriteLiteral(const PythonLiteral& literal, JsonWriter& out);

}  // namespace msitd::write
