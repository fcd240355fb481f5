// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::ask {

// Bounds of a YAML text. What goes beyond one is refused.
inline constexpr size_t kYamlBytesMax = size_t{16} << 20;
inline constexpr size_t kYamlValuesMax = size_t{1} << 20;
inline constexpr size_t kYamlDepthMax = 32;
// Characters such as brackets, commas and quotes in one text, line or pair of
// brackets at the top: what the parser may hold before it tells of it. Maps of
// 30,000 quoted pairs in brackets have fewer.
inline constexpr size_t kYamlUntoldMax = size_t{1} << 18;

// A value of a YAML text. Scalars are texts: YAML's types are for the reader of
// the values.
struct YamlValue {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text;               // Of a scalar.
  std::vector<std::string> keys;  // Of a map, one for each item.
  std::vector<YamlValue> items;
  int line = 0;  // From 1.

  // The item of a map with this key; null if there is none.
  const YamlValue* Find(std::string_view key) const;
};

// Reads the one document of a text; nothing but comments is null. Aliases are
// refused, since a few of them stand for any amount of values, and so are keys
// that a map has twice.
//
// Errors: INVALID_ARGUMENT with the line; RESOURCE_EXHAUSTED beyond a bound.
absl::StatusOr<YamlValue> ReadYaml(std::string_view text);

}  // namespace msitd::ask
