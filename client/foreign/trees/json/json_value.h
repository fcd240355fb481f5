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
  // kObjectBegin and kArrayBegin stand for the whole of them.
  JsonToken type = JsonToken::kNull;
  // Of a string or a number.
  std::string text;
  // Of an object or an array, in their order.
  std::vector<JsonValue> items;
  // Of an object: one for each item.
  std::vector<std::string> keys;

  bool IsObject() const { return type == JsonToken::kObjectBegin; }
  bool IsArray() const { return type == JsonToken::kArrayBegin; }
  bool IsString() const { return type == JsonToken::kString; }
  bool IsNumber() const { return type == JsonToken::kNumber; }
  bool IsNull() const { return type == JsonToken::kNull; }
  bool IsBool() const {
    return type == JsonToken::kTrue || type == JsonToken::kFalse;
  }

  // Returns what an object has under `key`: the last one, as Python takes it.
  // Null if there is none.
  const JsonValue* Find(std::string_view key) const;
};

// Reads the next value. RESOURCE_EXHAUSTED if it is more than json_limits.h
// lets be held: then the reader stands inside of it, and JsonReader::LeaveTo
// goes on behind it.
absl::StatusOr<JsonValue> ReadJsonValue(JsonReader& reader);

// Returns a number that JSON writes without point and exponent, from `min` to
// `max`; nothing for any other value.
std::optional<int64_t> IntegerOf(const JsonValue& value, int64_t min,
                                 int64_t max);

}  // namespace msitd::trees
