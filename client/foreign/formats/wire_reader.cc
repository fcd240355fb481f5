// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/wire_reader.h"

#include <limits>

namespace msitd::formats {
namespace {

constexpr int kNumberBits = 64;
constexpr uint32_t kKindBits = 3;

}  // namespace

bool WireReader::ReadVarint(uint64_t& number) {
  number = 0;
  for (int shift = 0; shift < kNumberBits; shift += 7) {
    if (rest_.empty()) return false;
    const auto byte = static_cast<uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    number |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool WireReader::Skip(uint64_t bytes) {
  if (rest_.size() < bytes) return false;
  rest_.remove_prefix(static_cast<size_t>(bytes));
  return true;
}

bool WireReader::Next() {
  if (!is_good_ || rest_.empty()) return false;
  number_ = 0;
  bytes_ = {};
  uint64_t tag = 0;
  is_good_ = ReadVarint(tag) && (tag >> kKindBits) != 0 &&
             tag <= std::numeric_limits<uint32_t>::max();
  if (!is_good_) return false;
  field_ = static_cast<uint32_t>(tag >> kKindBits);
  kind_ = static_cast<uint32_t>(tag & 7);
  switch (kind_) {
    case 0:
      is_good_ = ReadVarint(number_);
      break;
    case 1:
      is_good_ = Skip(8);
      break;
    case 2: {
      uint64_t length = 0;
      is_good_ = ReadVarint(length) && length <= rest_.size();
      if (!is_good_) break;
      bytes_ = rest_.substr(0, static_cast<size_t>(length));
      is_good_ = Skip(length);
      break;
    }
    case 5:
      is_good_ = Skip(4);
      break;
    default:
      is_good_ = false;
  }
  return is_good_;
}

bool PackedNumbers::Next(uint64_t& number) {
  if (reader_.rest_.empty()) return false;
  reader_.is_good_ = reader_.ReadVarint(number);
  return reader_.is_good_;
}

}  // namespace msitd::formats
