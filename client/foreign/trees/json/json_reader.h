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
  kEnd,  // Behind the only value of the file.
};

// Reads JSON as Python's json module writes and reads it, one token at a time,
// so that memory does not depend on the length of the file. NaN, Infinity and
// -Infinity are numbers; a key may come twice in an object; half of a surrogate
// pair comes as text, such as `\ud800`.
//
// After an error every call returns that error: INVALID_ARGUMENT for what is no
// JSON or not UTF-8, RESOURCE_EXHAUSTED beyond a limit of json_limits.h. It
// says at which byte. Thread-compatible.
class JsonReader {
 public:
  // `bytes` outlives the reader.
  explicit JsonReader(const formats::ByteSource& bytes);

  absl::StatusOr<JsonToken> Next();

  // Of the last token: a key or a string without its escapes, a number as it is
  // written.
  const std::string& text() const { return text_; }

  // Objects and arrays that are open behind the last token.
  int depth() const { return static_cast<int>(open_.size()); }

  // Reads on until no more than `depth` objects and arrays are open.
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

  // Return the next byte, the first of them without taking it; -1 at the end
  // and after an error of the file.
  int Peek();
  int Take();
  int TakeBehindBlanks();
  absl::Status Append(int byte);
  absl::Status Refuse(std::string_view why) const;

  const formats::ByteSource& bytes_;
  std::string buffer_;
  size_t buffer_next_ = 0;
  // Where `buffer_` begins in the file.
  uint64_t buffer_begin_ = 0;
  absl::Status status_;

  // The brackets that are open.
  std::string open_;
  Expected expected_ = Expected::kValue;
  std::string text_;
};

}  // namespace msitd::trees
