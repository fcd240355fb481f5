// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace msitd::formats {

// Iterates over the fields of a message in the wire format of protobuf
// (protobuf.dev/programming-guides/encoding). libprotobuf is not used, because
// its symbols would conflict with those of another protobuf in the Python
// process. Borrows the message. Thread-compatible.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // Moves to the next field. Returns false after the last one, and if the
  // message is malformed; is_good distinguishes the two.
  bool Next();

  bool is_good() const { return is_good_; }

  uint32_t field() const { return field_; }
  bool has_number() const { return kind_ == 0; }
  bool has_bytes() const { return kind_ == 2; }
  // The value of a varint.
  uint64_t number() const { return number_; }
  // A text, a message, or packed numbers.
  std::string_view bytes() const { return bytes_; }

 private:
  friend class PackedNumbers;

  bool ReadVarint(uint64_t& number);
  bool Skip(uint64_t bytes);

  std::string_view rest_;
  bool is_good_ = true;
  uint32_t field_ = 0;
  uint32_t kind_ = 0;
  uint64_t number_ = 0;
  std::string_view bytes_;
};

// The numbers of a packed field, one after another.
class PackedNumbers {
 public:
  explicit PackedNumbers(std::string_view bytes) : reader_(bytes) {}

  bool Next(uint64_t& number);
  bool is_good() const { return reader_.is_good_; }

 private:
  WireReader reader_;
};

}  // namespace msitd::formats
