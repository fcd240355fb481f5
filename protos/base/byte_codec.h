// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

// Encoding of numbers and text in index keys and values. Values are
// little-endian and use varints (7 bits per byte, low bits first). Keys are
// big-endian, so that their bytes sort like the numbers.
namespace msitd {

// Writes the low `bytes` bytes of `value` to `out`, high byte first, and
// returns the position after them.
inline char* PutBigEndian(char* out, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i) {
    *out++ = static_cast<char>(value >> (8 * i));
  }
  return out;
}

inline uint64_t GetBigEndian(const char* in, int bytes) {
  uint64_t value = 0;
  if (bytes == sizeof(value)) {
    std::memcpy(&value, in, sizeof(value));
    return __builtin_bswap64(value);
  }
  for (int i = 0; i < bytes; ++i) {
    value = value << 8 | static_cast<uint8_t>(in[i]);
  }
  return value;
}

// Returns `value` as 8 bytes, high byte first.
inline std::string BigEndianKey(uint64_t value) {
  std::string key(8, '\0');
  PutBigEndian(key.data(), value, 8);
  return key;
}

// Maximum size of a varint in bytes.
inline constexpr size_t kVarintBytesMax = 10;

// Writes fields to memory that must be large enough. Thread-compatible; the
// memory is borrowed.
class FieldWriter {
 public:
  explicit FieldWriter(char* out) : end_(out) {}

  void PutByte(uint8_t value) { *end_++ = static_cast<char>(value); }

  void PutVarint(uint64_t value) {
    while (value >= 0x80) {
      PutByte(static_cast<uint8_t>(value | 0x80));
      value >>= 7;
    }
    PutByte(static_cast<uint8_t>(value));
  }

  // Small magnitudes of either sign take one byte.
  void PutSigned(int64_t value) {
    PutVarint(static_cast<uint64_t>(value) << 1 ^
              static_cast<uint64_t>(value >> 63));
  }

  void PutFixed64(uint64_t value) {
    std::memcpy(end_, &value, sizeof(value));
    end_ += sizeof(value);
  }

  void PutText(std::string_view text) {
    PutVarint(text.size());
    std::memcpy(end_, text.data(), text.size());
    end_ += text.size();
  }

  // The position after the last field.
  const char* end() const { return end_; }

 private:
  char* end_;
};

// Appends fields to a string. Thread-compatible; the string is borrowed.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& out) : out_(out) {}

  void PutByte(uint8_t value) { out_.push_back(static_cast<char>(value)); }

  void PutVarint(uint64_t value) {
    // Fast path, because most numbers are small.
    if (value < 0x80) {
      PutByte(static_cast<uint8_t>(value));
      return;
    }
    Append([value](FieldWriter& field) { field.PutVarint(value); });
  }

  // Small magnitudes of either sign take one byte.
  void PutSigned(int64_t value) {
    Append([value](FieldWriter& field) { field.PutSigned(value); });
  }

  void PutFixed64(uint64_t value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }

  void PutText(std::string_view text) {
    PutVarint(text.size());
    PutBytes(text);
  }

  // The reader must know the number of bytes.
  void PutBytes(std::string_view bytes) { out_.append(bytes); }

 private:
  template <typename Put>
  void Append(Put put) {
    char bytes[kVarintBytesMax];
    FieldWriter field(bytes);
    put(field);
    out_.append(static_cast<const char*>(bytes), field.end());
  }

  std::string& out_;
};

// Reads fields back. The first missing field makes ok() false permanently; this
// field and all later ones are zero or empty.
class ByteReader {
 public:
  explicit ByteReader(std::string_view in)
      : begin_(in.data()), end_(in.data() + in.size()) {}

  bool ok() const { return ok_; }
  // True if all fields were present and no bytes remain.
  bool done() const { return ok_ && begin_ == end_; }
  // Number of remaining bytes.
  size_t left() const { return static_cast<size_t>(end_ - begin_); }

  uint8_t GetByte() {
    const char* at = begin_;
    return Take(1) ? static_cast<uint8_t>(*at) : uint8_t{0};
  }

  uint64_t GetVarint() {
    // Fast path, because most numbers are small.
    if (begin_ != end_ && static_cast<uint8_t>(*begin_) < 0x80) {
      return static_cast<uint8_t>(*begin_++);
    }
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const uint8_t byte = GetByte();
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return ok_ ? value : 0;
    }
    Fail();
    return 0;
  }

  int64_t GetSigned() {
    const uint64_t value = GetVarint();
    return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }

  uint64_t GetFixed64() {
    uint64_t value = 0;
    const char* at = begin_;
    if (Take(sizeof(value))) std::memcpy(&value, at, sizeof(value));
    return value;
  }

  double GetDouble() { return std::bit_cast<double>(GetFixed64()); }

  // The returned view refers to the text that the reader was constructed with.
  std::string_view GetText() { return GetBytes(GetVarint()); }
  std::string_view GetBytes(uint64_t count) {
    const char* at = begin_;
    return Take(count) ? std::string_view(at, count) : std::string_view();
  }

 private:
  bool Take(uint64_t bytes) {
    if (bytes > static_cast<uint64_t>(end_ - begin_)) {
      Fail();
      return false;
    }
    begin_ += bytes;
    return true;
  }

  // Discards all remaining bytes.
  void Fail() {
    ok_ = false;
    begin_ = end_;
  }

  const char* begin_;
  const char* end_;
  bool ok_ = true;
};

}  // namespace msitd
