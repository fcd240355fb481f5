// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/trees/json/json_reader.h"

namespace msitd::trees {

// A value of JSON in memory.
struct JsonValue {
  // kObjectBegin and kArrayBegin represent a whole object or array.
  JsonToken type = JsonToken::kNull;
  // For a string or a number.
  std::string text;
  // For an object or an array, in order.
  std::vector<JsonValue> items;
  // For an object: one key for each item.
  std::vector<std::string> keys;

  bool IsObject() const { return type == JsonToken::kObjectBegin; }
  bool IsArray() const { return type == JsonToken::kArrayBegin; }
  bool IsString() const { return type == JsonToken::kString; }
  bool IsNumber() const { return type == JsonToken::kNumber; }
  bool IsNull() const { return type == JsonToken::kNull; }
  bool IsBool() const {
    return type == JsonToken::kTrue || type == JsonToken::kFalse;
  }

  // Returns the value of `key` in an object: the last one, as in Python.
  // Returns null if there is none.
  const JsonValue* Find(std::string_view key) const;
};

// Reads the next value. Returns RESOURCE_EXHAUSTED if the value exceeds a limit
// of json_limits.h. The reader is then inside the value, and
// JsonReader::LeaveTo skips the rest of it.
absl::StatusOr<JsonValue> ReadJsonValue(JsonReader& reader);

// Returns a number from `min` to `max` that JSON writes without point and
// exponent; nothing for any other value.
std::optional<int64_t> IntegerOf(const JsonValue& value, int64_t min,
                                 int64_t max);

}  // namespace msitd::trees
