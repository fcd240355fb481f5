// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/request_size.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>

#include "protos/status/status.h"

namespace msitd::service {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;

// The same limit as in protobuf.
constexpr int kDepthMax = 100;

// Arrays grow by doubling, so each element is counted twice.
constexpr size_t kNumberBytes = 16;
// A string object, the pointer to it, and its bytes on the heap.
constexpr size_t kTextBytes = 64;
constexpr size_t kMessageBytes = 128;

class Meter {
 public:
  Meter(google::protobuf::io::ZeroCopyInputStream& in, size_t bytes_max)
      : in_(&in), left_(bytes_max) {}

  size_t left() const { return left_; }
  bool is_full() const { return is_full_; }

  // Reads to the end of the message. Returns false if it is invalid or
  // is_full().
  bool ReadMessage(const Descriptor& type, int depth) {
    if (depth > kDepthMax || !Take(kMessageBytes)) return false;
    while (const uint32_t tag = in_.ReadTagNoLastTag()) {
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      if (number == 0) return false;
      if (!ReadField(tag, type.FindFieldByNumber(number), depth)) return false;
    }
    return in_.ConsumedEntireMessage();
  }

 private:
  bool Take(uint64_t bytes) {
    is_full_ = bytes > left_;
    if (!is_full_) left_ -= bytes;
    return !is_full_;
  }

  bool ReadField(uint32_t tag, const FieldDescriptor* field, int depth) {
    uint64_t number = 0;
    switch (WireFormatLite::GetTagWireType(tag)) {
      case WireFormatLite::WIRETYPE_VARINT:
        return in_.ReadVarint64(&number) && Take(kNumberBytes);
      case WireFormatLite::WIRETYPE_FIXED32:
        return in_.Skip(sizeof(uint32_t)) && Take(kNumberBytes);
      case WireFormatLite::WIRETYPE_FIXED64:
        return in_.Skip(sizeof(uint64_t)) && Take(kNumberBytes);
      case WireFormatLite::WIRETYPE_LENGTH_DELIMITED:
        return ReadBytes(field, depth);
      default:
        // A group, known or unknown, which protobuf would accept.
        return false;
    }
  }

  bool ReadBytes(const FieldDescriptor* field, int depth) {
    int length = 0;
    if (!in_.ReadVarintSizeAsInt(&length)) return false;
    const auto bytes = static_cast<uint64_t>(length);
    if (field != nullptr && field->message_type() != nullptr) {
      const auto limit = in_.PushLimit(length);
      if (!ReadMessage(*field->message_type(), depth + 1)) return false;
      in_.PopLimit(limit);
      return true;
    }
    const bool is_packed = field != nullptr && field->is_packable();
    return Take(is_packed ? bytes * kNumberBytes : kTextBytes + 2 * bytes) &&
           in_.Skip(length);
  }

  google::protobuf::io::CodedInputStream in_;
  size_t left_;
  bool is_full_ = false;
};

}  // namespace

absl::StatusOr<size_t> ParsedBytes(
    google::protobuf::io::ZeroCopyInputStream& in, const Descriptor& type,
    size_t bytes_max) {
  Meter meter(in, bytes_max);
  if (meter.ReadMessage(type, 0)) return bytes_max - meter.left();
  if (meter.is_full()) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "a {} of more than {} bytes in memory", type.name(),
                      bytes_max);
  }
  return MakeStatus(absl::StatusCode::kInvalidArgument, "the bytes are no {}",
                    type.name());
}

}  // namespace msitd::service
