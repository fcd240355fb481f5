// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace msitd::ask {

// Limits of a YAML text. Text beyond a limit is rejected.
inline constexpr size_t kYamlBytesMax = size_t{16} << 20;
inline constexpr size_t kYamlValuesMax = size_t{1} << 20;
inline constexpr size_t kYamlDepthMax = 32;
// Characters such as brackets, commas and quotes in one text, line or pair of
// top-level brackets, for which the parser holds tokens before it reports them.
// Maps of 30,000 quoted pairs in brackets have fewer.
inline constexpr size_t kYamlUntoldMax = size_t{1} << 18;

// A value of a YAML text. Scalars are texts, because the caller interprets
// YAML's types.
struct YamlValue {
  enum class Kind : uint8_t { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  std::string text;               // For a scalar.
  std::vector<std::string> keys;  // For a map: one for each item.
  std::vector<YamlValue> items;
  int line = 0;  // From 1.

  // Returns the item of a map with this key; null if there is none.
  const YamlValue* Find(std::string_view key) const;
};

// Parses the single document of a text. A text with only comments is null.
// Aliases are rejected, because a few of them can represent any number of
// values, and so are duplicate keys of a map.
//
// Errors: INVALID_ARGUMENT with the line; RESOURCE_EXHAUSTED beyond a limit.
absl::StatusOr<YamlValue> ReadYaml(std::string_view text);

}  // namespace msitd::ask
