// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/foreign/formats/byte_source.h"

namespace msitd::trees {

enum class JsonToken : uint8_t {
  kObjectBegin,
  kObjectEnd,
  kArrayBegin,
  kArrayEnd,
  kKey,
  kString,
  kNumber,
  kTrue,
  kFalse,
  kNull,
  kEnd,  // After the only value of the file.
};

// Reads JSON as Python's json module reads and writes it, one token at a time,
// so that memory use does not depend on the length of the file. NaN, Infinity
// and -Infinity are numbers. A key may occur twice in an object. Half of a
// surrogate pair is returned as text, such as `\ud800`.
//
// After an error, every call returns that error: INVALID_ARGUMENT if the text
// is not JSON or not UTF-8, RESOURCE_EXHAUSTED beyond a limit of json_limits.h.
// The error contains the byte offset. Thread-compatible.
class JsonReader {
 public:
  // `bytes` outlives the reader.
  explicit JsonReader(const formats::ByteSource& bytes);

  absl::StatusOr<JsonToken> Next();

  // The text of the last token: a key or a string without its escapes, a number
  // as it is written.
  const std::string& text() const { return text_; }

  // The number of objects and arrays that are open after the last token.
  int depth() const { return static_cast<int>(open_.size()); }

  // Skips tokens until at most `depth` objects and arrays are open.
  absl::Status LeaveTo(int depth);

 private:
  enum class Expected : uint8_t {
    kValue,
    kValueOrEnd,
    kKeyOrEnd,
    kKey,
    kCommaOrEnd,
    kNothing,
  };

  absl::StatusOr<JsonToken> ReadToken();
  absl::StatusOr<JsonToken> ReadValue(int first);
  absl::StatusOr<JsonToken> Open(char bracket);
  absl::StatusOr<JsonToken> Close(char bracket);
  absl::StatusOr<JsonToken> ReadKey();
  absl::StatusOr<JsonToken> ReadWord(std::string_view word, JsonToken token);
  absl::StatusOr<JsonToken> ReadNumber(int first);
  absl::Status ReadDigits();
  absl::Status ReadString();
  absl::Status ReadEscape();
  absl::Status ReadHex(uint32_t& unit);
  absl::Status ReadUnit();
  void ExpectNext();

  // Return the next byte, or -1 at the end and after a read error of the file.
  // Peek does not consume the byte.
  int Peek();
  int Take();
  int TakeBehindBlanks();
  absl::Status Append(int byte);
  absl::Status Refuse(std::string_view why) const;

  const formats::ByteSource& bytes_;
  std::string buffer_;
  size_t buffer_next_ = 0;
  // The offset of `buffer_` in the file.
  uint64_t buffer_begin_ = 0;
  absl::Status status_;

  // The open brackets.
  std::string open_;
  Expected expected_ = Expected::kValue;
  std::string text_;
};

}  // namespace msitd::trees
