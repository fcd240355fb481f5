// SPDX-License-Identifier: Apache-2.0
#include "daemon/remote/write_chunks_message.h"

#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "protos/base/byte_codec.h"
#include "protos/base/check.h"

namespace msitd::service {
namespace {

using google::protobuf::internal::WireFormatLite;

constexpr uint64_t kChunkTag =
    WireFormatLite::MakeTag(v1::WriteChunksRequest::kChunkFieldNumber,
                            WireFormatLite::WIRETYPE_LENGTH_DELIMITED);

// Maximum size of a message that is anything other than a single chunk.
constexpr size_t kOtherBytesMax = size_t{64} << 10;

// Maximum size of the tag and the length of a field.
constexpr size_t kPrefixBytesMax = 20;

}  // namespace

bool WriteChunksMessage::ReadChunk(const grpc::ByteBuffer& bytes) {
  slices_.clear();
  if (!bytes.Dump(&slices_).ok()) return false;
  std::array<char, kPrefixBytesMax> begin;
  size_t count = 0;
  for (const grpc::Slice& slice : slices_) {
    const size_t taken = std::min(slice.size(), begin.size() - count);
    std::memcpy(begin.data() + count, slice.begin(), taken);
    count += taken;
    if (count == begin.size()) break;
  }
  ByteReader reader(std::string_view(begin.data(), count));
  if (reader.GetVarint() != kChunkTag) return false;
  chunk_bytes_ = reader.GetVarint();
  if (!reader.ok() || chunk_bytes_ > bytes.Length()) return false;
  prefix_bytes_ = bytes.Length() - chunk_bytes_;
  return prefix_bytes_ == count - reader.left();
}

bool WriteChunksMessage::Read(grpc::ByteBuffer& bytes) {
  bool is_message = true;
  if (!ReadChunk(bytes)) {
    slices_.clear();
    request_.Clear();
    is_message = bytes.Length() <= kOtherBytesMax;
    if (is_message) {
      grpc::ProtoBufferReader reader(&bytes);
      is_message = request_.ParseFromZeroCopyStream(&reader);
    }
  }
  bytes.Clear();
  return is_message;
}

std::optional<size_t> WriteChunksMessage::chunk_bytes() const {
  if (!slices_.empty()) return chunk_bytes_;
  if (!request_.has_chunk()) return std::nullopt;
  return request_.chunk().size();
}

void WriteChunksMessage::TakeChunk(std::span<std::byte> out) {
  MSITD_CHECK(out.size() == chunk_bytes());
  if (slices_.empty()) {
    std::memcpy(out.data(), request_.chunk().data(), out.size());
    request_.Clear();
    return;
  }
  size_t skipped = prefix_bytes_;
  for (const grpc::Slice& slice : slices_) {
    const size_t before = std::min(skipped, slice.size());
    skipped -= before;
    const size_t count = slice.size() - before;
    std::memcpy(out.data(), slice.begin() + before, count);
    out = out.subspan(count);
  }
  slices_.clear();
}

}  // namespace msitd::service
