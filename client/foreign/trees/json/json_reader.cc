// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/json/json_reader.h"

#include <algorithm>
#include <span>

#include "client/foreign/trees/json/json_limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr size_t kBufferBytes = size_t{64} << 10;
constexpr int kNoByte = -1;

bool IsBlank(int byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

bool IsDigit(int byte) { return byte >= '0' && byte <= '9'; }

bool IsHighSurrogate(uint32_t unit) { return unit >> 10 == 0xd800 >> 10; }
bool IsLowSurrogate(uint32_t unit) { return unit >> 10 == 0xdc00 >> 10; }

void AppendUtf8(uint32_t code, std::string& out) {
  const auto put = [&out](uint32_t byte) {
    out.push_back(static_cast<char>(byte));
  };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6);
    put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12);
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18);
    put(0x80 | (code >> 12 & 0x3f));
    put(0x80 | (code >> 6 & 0x3f));
    put(0x80 | (code & 0x3f));
  }
}

}  // namespace

JsonReader::JsonReader(const formats::ByteSource& bytes) : bytes_(bytes) {
  if (bytes.size() > kJsonFileBytesMax) {
    status_ = MakeStatus(absl::StatusCode::kResourceExhausted,
                         "the file has {} bytes, more than {}", bytes.size(),
                         kJsonFileBytesMax);
  }
}

absl::StatusOr<JsonToken> JsonReader::Next() {
  MSITD_RETURN_IF_ERROR(status_);
  text_.clear();
  auto token = ReadToken();
  // A read error of the file appears as its end to the functions that read
  // bytes.
  if (!status_.ok()) return status_;
  if (!token.ok()) status_ = token.status();
  return token;
}

absl::Status JsonReader::LeaveTo(int depth) {
  while (this->depth() > depth) {
    const auto token = Next();
    if (!token.ok()) return token.status();
  }
  return absl::OkStatus();
}

absl::StatusOr<JsonToken> JsonReader::ReadToken() {
  int byte = TakeBehindBlanks();
  if (expected_ == Expected::kNothing) {
    if (byte == kNoByte) return JsonToken::kEnd;
    return Refuse("something follows the value");
  }
  const bool may_close = expected_ == Expected::kKeyOrEnd ||
                         expected_ == Expected::kValueOrEnd ||
                         expected_ == Expected::kCommaOrEnd;
  if (may_close && (byte == '}' || byte == ']')) {
    return Close(static_cast<char>(byte));
  }
  if (expected_ == Expected::kCommaOrEnd) {
    if (byte != ',') return Refuse("a comma is missing");
    byte = TakeBehindBlanks();
    expected_ = open_.back() == '{' ? Expected::kKey : Expected::kValue;
  }
  if (expected_ == Expected::kKey || expected_ == Expected::kKeyOrEnd) {
    if (byte != '"') return Refuse("a key is missing");
    return ReadKey();
  }
  return ReadValue(byte);
}

absl::StatusOr<JsonToken> JsonReader::ReadValue(int first) {
  switch (first) {
    case '{':
    case '[':
      return Open(static_cast<char>(first));
    case '"':
      MSITD_RETURN_IF_ERROR(ReadString());
      ExpectNext();
      return JsonToken::kString;
    case 't':
      return ReadWord("rue", JsonToken::kTrue);
    case 'f':
      return ReadWord("alse", JsonToken::kFalse);
    case 'n':
      return ReadWord("ull", JsonToken::kNull);
    case 'N':
      text_ = "NaN";
      return ReadWord("aN", JsonToken::kNumber);
    case 'I':
      text_ = "Infinity";
      return ReadWord("nfinity", JsonToken::kNumber);
    default:
      return ReadNumber(first);
  }
}

absl::StatusOr<JsonToken> JsonReader::Open(char bracket) {
  if (open_.size() == kJsonDepthMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "more than {} objects and arrays are nested",
                      kJsonDepthMax);
  }
  open_.push_back(bracket);
  if (bracket == '[') {
    expected_ = Expected::kValueOrEnd;
    return JsonToken::kArrayBegin;
  }
  expected_ = Expected::kKeyOrEnd;
  return JsonToken::kObjectBegin;
}

absl::StatusOr<JsonToken> JsonReader::Close(char bracket) {
  if (open_.back() != (bracket == '}' ? '{' : '[')) {
    return Refuse("a bracket of the other kind is missing");
  }
  open_.pop_back();
  ExpectNext();
  return bracket == '}' ? JsonToken::kObjectEnd : JsonToken::kArrayEnd;
}

absl::StatusOr<JsonToken> JsonReader::ReadKey() {
  MSITD_RETURN_IF_ERROR(ReadString());
  if (TakeBehindBlanks() != ':') return Refuse("a colon is missing");
  expected_ = Expected::kValue;
  return JsonToken::kKey;
}

absl::StatusOr<JsonToken> JsonReader::ReadWord(std::string_view word,
                                               JsonToken token) {
  for (const char letter : word) {
    if (Take() != letter) return Refuse("a word is unknown");
  }
  ExpectNext();
  return token;
}

absl::StatusOr<JsonToken> JsonReader::ReadNumber(int first) {
  if (first == '-') {
    text_ = "-";
    first = Take();
    if (first == 'I') {
      text_ = "-Infinity";
      return ReadWord("nfinity", JsonToken::kNumber);
    }
  }
  if (!IsDigit(first)) return Refuse("a value is missing");
  MSITD_RETURN_IF_ERROR(Append(first));
  if (first != '0') {
    while (IsDigit(Peek())) MSITD_RETURN_IF_ERROR(Append(Take()));
  }
  if (Peek() == '.') {
    MSITD_RETURN_IF_ERROR(Append(Take()));
    MSITD_RETURN_IF_ERROR(ReadDigits());
  }
  if (Peek() == 'e' || Peek() == 'E') {
    MSITD_RETURN_IF_ERROR(Append(Take()));
    if (Peek() == '+' || Peek() == '-') MSITD_RETURN_IF_ERROR(Append(Take()));
    MSITD_RETURN_IF_ERROR(ReadDigits());
  }
  ExpectNext();
  return JsonToken::kNumber;
}

absl::Status JsonReader::ReadDigits() {
  if (!IsDigit(Peek())) return Refuse("a digit is missing");
  while (IsDigit(Peek())) MSITD_RETURN_IF_ERROR(Append(Take()));
  return absl::OkStatus();
}

absl::Status JsonReader::ReadString() {
  for (;;) {
    const int byte = Take();
    if (byte == '"') break;
    if (byte == kNoByte) return Refuse("it ends inside a string");
    if (byte < 0x20) return Refuse("a string has a control character");
    if (byte == '\\') {
      MSITD_RETURN_IF_ERROR(ReadEscape());
    } else {
      MSITD_RETURN_IF_ERROR(Append(byte));
    }
  }
  if (!IsValidUtf8(text_)) return Refuse("a string is not UTF-8");
  return absl::OkStatus();
}

absl::Status JsonReader::ReadEscape() {
  constexpr std::string_view kEscapes = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  const int byte = Take();
  if (byte == 'u') return ReadUnit();
  const size_t place =
      byte == kNoByte ? kEscapes.npos : kEscapes.find(static_cast<char>(byte));
  if (place == kEscapes.npos) return Refuse("an escape sequence is unknown");
  return Append(static_cast<unsigned char>(kMeanings[place]));
}

absl::Status JsonReader::ReadHex(uint32_t& unit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  unit = 0;
  for (int i = 0; i < 4; ++i) {
    int byte = Take();
    if (byte >= 'A' && byte <= 'F') byte += 'a' - 'A';
    const size_t digit =
        byte == kNoByte ? kDigits.npos : kDigits.find(static_cast<char>(byte));
    if (digit == kDigits.npos)
      return Refuse("an escape sequence lacks a digit");
    unit = unit << 4 | static_cast<uint32_t>(digit);
  }
  return absl::OkStatus();
}

absl::Status JsonReader::ReadUnit() {
  uint32_t unit = 0;
  MSITD_RETURN_IF_ERROR(ReadHex(unit));
  // Surrogates that are not followed by their other half stay texts. Each
  // iteration reads another escape.
  while (IsHighSurrogate(unit) && Peek() == '\\') {
    Take();
    if (Peek() != 'u') {
      text_ += fmt::format("\\u{:04x}", unit);
      return ReadEscape();
    }
    Take();
    uint32_t next = 0;
    MSITD_RETURN_IF_ERROR(ReadHex(next));
    if (IsLowSurrogate(next)) {
      unit = 0x10000 + ((unit & 0x3ff) << 10 | (next & 0x3ff));
      break;
    }
    text_ += fmt::format("\\u{:04x}", unit);
    unit = next;
    if (text_.size() > kJsonTextBytesMax) break;
  }
  if (IsHighSurrogate(unit) || IsLowSurrogate(unit)) {
    text_ += fmt::format("\\u{:04x}", unit);
  } else {
    AppendUtf8(unit, text_);
  }
  if (text_.size() <= kJsonTextBytesMax) return absl::OkStatus();
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "a string is longer than {} bytes", kJsonTextBytesMax);
}

void JsonReader::ExpectNext() {
  expected_ = open_.empty() ? Expected::kNothing : Expected::kCommaOrEnd;
}

int JsonReader::Peek() {
  if (buffer_next_ == buffer_.size()) {
    if (!status_.ok()) return kNoByte;
    buffer_begin_ += buffer_.size();
    buffer_next_ = 0;
    buffer_.resize(
        std::min<uint64_t>(kBufferBytes, bytes_.size() - buffer_begin_));
    if (buffer_.empty()) return kNoByte;
    status_ = bytes_.ReadAt(
        buffer_begin_,
        std::as_writable_bytes(std::span(buffer_.data(), buffer_.size())));
    if (!status_.ok()) {
      buffer_.clear();
      return kNoByte;
    }
  }
  return static_cast<unsigned char>(buffer_[buffer_next_]);
}

int JsonReader::Take() {
  const int byte = Peek();
  if (byte != kNoByte) ++buffer_next_;
  return byte;
}

int JsonReader::TakeBehindBlanks() {
  while (IsBlank(Peek())) Take();
  return Take();
}

absl::Status JsonReader::Append(int byte) {
  if (text_.size() >= kJsonTextBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "a string is longer than {} bytes", kJsonTextBytesMax);
  }
  text_.push_back(static_cast<char>(byte));
  return absl::OkStatus();
}

absl::Status JsonReader::Refuse(std::string_view why) const {
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "invalid JSON at byte {}: {}", buffer_begin_ + buffer_next_,
                    why);
}

}  // namespace msitd::trees
