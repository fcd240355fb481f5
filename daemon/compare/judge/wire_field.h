// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <google/protobuf/wire_format_lite.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

#include "protos/base/byte_codec.h"

// Fields of protobuf messages in wire format.
namespace msitd::compare {

namespace internal {
using WireFormat = google::protobuf::internal::WireFormatLite;
}  // namespace internal

// Return the tag of a field with this number, by the form of its value.
constexpr uint32_t VarintTag(int number) {
  return internal::WireFormat::MakeTag(number,
                                       internal::WireFormat::WIRETYPE_VARINT);
}
constexpr uint32_t Fixed64Tag(int number) {
  return internal::WireFormat::MakeTag(number,
                                       internal::WireFormat::WIRETYPE_FIXED64);
}
constexpr uint32_t LengthTag(int number) {
  return internal::WireFormat::MakeTag(
      number, internal::WireFormat::WIRETYPE_LENGTH_DELIMITED);
}

// A field of a message. `text` refers to the bytes of the reader.
struct WireField {
  uint64_t tag = 0;
  uint64_t number = 0;         // The value of a varint or fixed64.
  std::string_view text = {};  // The value of a field with a length.

  // Reads the next field. Returns false if there is none, for a group, which
  // messages of version 3 do not have, and for bytes that protobuf refuses.
  bool Read(ByteReader& in) {
    constexpr uint64_t kFirstTag = 8;  // Number 0 is invalid.
    if (!ReadShortVarint(in, tag) || tag < kFirstTag) return false;
    uint64_t bytes = 0;
    switch (internal::WireFormat::GetTagWireType(static_cast<uint32_t>(tag))) {
      case internal::WireFormat::WIRETYPE_VARINT:
        number = in.GetVarint();
        break;
      case internal::WireFormat::WIRETYPE_FIXED64:
        number = in.GetFixed64();
        break;
      case internal::WireFormat::WIRETYPE_LENGTH_DELIMITED:
        if (!ReadShortVarint(in, bytes)) return false;
        text = in.GetBytes(bytes);
        break;
      case internal::WireFormat::WIRETYPE_FIXED32:
        for (int i = 0; i < 4; ++i) in.GetByte();
        break;
      default:
        return false;
    }
    return in.ok();
  }

 private:
  // Reads a tag or a length, for which protobuf takes at most 5 bytes. Returns
  // false if there is none, or if it needs more than 32 bits.
  static bool ReadShortVarint(ByteReader& in, uint64_t& out) {
    constexpr size_t kBytesMax = 5;
    const size_t left = in.left();
    out = in.GetVarint();
    return in.ok() && left - in.left() <= kBytesMax &&
           out <= std::numeric_limits<uint32_t>::max();
  }
};

}  // namespace msitd::compare
