// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/json/json_value.h"

#include <charconv>
#include <utility>

#include "client/foreign/trees/json/json_limits.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

// Reads one value. The reader limits its depth.
class ValueBuilder {
 public:
  explicit ValueBuilder(JsonReader& reader) : reader_(reader) {}

  absl::Status Build(JsonToken token, JsonValue& out) {
    out.type = token;
    if (++nodes_ > kJsonNodesMax) return TooLarge();
    if (token == JsonToken::kString || token == JsonToken::kNumber) {
      return TakeText(out.text);
    }
    if (token == JsonToken::kObjectBegin) return BuildItems(out, true);
    if (token == JsonToken::kArrayBegin) return BuildItems(out, false);
    return absl::OkStatus();
  }

 private:
  absl::Status BuildItems(JsonValue& out, bool has_keys) {
    for (;;) {
      MSITD_ASSIGN_OR_RETURN(JsonToken token, reader_.Next());
      if (token == JsonToken::kObjectEnd || token == JsonToken::kArrayEnd) {
        return absl::OkStatus();
      }
      if (has_keys) {
        MSITD_RETURN_IF_ERROR(TakeText(out.keys.emplace_back()));
        MSITD_ASSIGN_OR_RETURN(token, reader_.Next());
      }
      MSITD_RETURN_IF_ERROR(Build(token, out.items.emplace_back()));
    }
  }

  absl::Status TakeText(std::string& out) {
    bytes_ += reader_.text().size();
    if (bytes_ > kJsonHeldBytesMax) return TooLarge();
    out = reader_.text();
    return absl::OkStatus();
  }

  static absl::Status TooLarge() {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "it has more than {} values, or {} bytes", kJsonNodesMax,
                      kJsonHeldBytesMax);
  }

  JsonReader& reader_;
  size_t nodes_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

const JsonValue* JsonValue::Find(std::string_view key) const {
  for (size_t i = keys.size(); i-- > 0;) {
    if (keys[i] == key) return &items[i];
  }
  return nullptr;
}

absl::StatusOr<JsonValue> ReadJsonValue(JsonReader& reader) {
  MSITD_ASSIGN_OR_RETURN(const JsonToken token, reader.Next());
  if (token == JsonToken::kEnd || token == JsonToken::kKey ||
      token == JsonToken::kObjectEnd || token == JsonToken::kArrayEnd) {
    return absl::InvalidArgumentError("no value follows");
  }
  JsonValue out;
  MSITD_RETURN_IF_ERROR(ValueBuilder(reader).Build(token, out));
  return out;
}

std::optional<int64_t> IntegerOf(const JsonValue& value, int64_t min,
                                 int64_t max) {
  if (!value.IsNumber()) return std::nullopt;
  int64_t number = 0;
  const char* end = value.text.data() + value.text.size();
  const auto [rest, error] = std::from_chars(value.text.data(), end, number);
  if (error != std::errc() || rest != end) return std::nullopt;
  if (number < min || number > max) return std::nullopt;
  return number;
}

}  // namespace msitd::trees
