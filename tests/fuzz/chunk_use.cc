// SPDX-License-Identifier: Apache-2.0
#include "tests/fuzz/chunk_use.h"

#include <optional>
#include <string_view>

#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_statistics.h"
#include "protos/base/utf8.h"
#include "tests/support/placement_text.h"

namespace msitd::fuzz {
namespace {

void UseName(std::string_view name, size_t bytes_max) {
  MSITD_CHECK(name.size() <= bytes_max);
  MSITD_CHECK(IsValidUtf8(name));
  MSITD_CHECK(name.find('\0') == std::string_view::npos);
}

void UseExtra(const chunk::Chunk& chunk,
              const chunk::RecordDescriptor& record) {
  const RecordKind kind = chunk::KindOf(record);
  const chunk::RecordExtra extra = chunk.ExtraOf(record);
  MSITD_CHECK(IsValid(kind));
  MSITD_CHECK(extra.has_value() == HasValueText(kind));
  MSITD_CHECK(kind != RecordKind::kStatistics ||
              ParseTensorStatistics(chunk.Text(extra.value)).has_value());
  UseName(chunk.Text(extra.value), kValueBytesMax);
  UseName(chunk.Text(extra.stack), kStackBytesMax);
  UseName(chunk.Text(extra.alias_op), kOpBytesMax);
  UseName(chunk.Text(extra.alias_index), kIndexBytesMax);
  MSITD_CHECK(extra.is_alias() != chunk.Text(extra.alias_op).empty());
  MSITD_CHECK(!extra.is_alias() || record.payload_bytes == 0);
}

void UseRecord(const chunk::Chunk& chunk,
               const chunk::RecordDescriptor& record) {
  MSITD_CHECK(!chunk.Text(record.op).empty());
  MSITD_CHECK(!chunk.Text(record.device).empty());
  UseName(chunk.Text(record.op), kOpBytesMax);
  UseName(chunk.Text(record.device), kDeviceBytesMax);
  UseName(chunk.Text(record.index), kIndexBytesMax);
  if (record.placement.length > 0) {
    const std::string_view text = chunk.Text(record.placement);
    UseName(text, kPlacementBytesMax);
    const std::optional<Placement> placement = ParsePlacement(text);
    MSITD_CHECK(placement.has_value() && FormatPlacement(*placement) == text);
  }
  UseExtra(chunk, record);
  MSITD_CHECK(record.token >= 0 && record.token <= kTokenMax);
  MSITD_CHECK(record.call >= 0 && record.call <= kCallMax);
  unsigned __int128 bytes = ElementBytes(DType{record.dtype});
  bool is_empty = false;
  for (const int64_t dim : chunk.Dims(record)) {
    MSITD_CHECK(dim >= 0);
    is_empty = is_empty || dim == 0;
    if (bytes <= kTensorBytesMax) bytes *= static_cast<uint64_t>(dim);
  }
  const bool has_bytes = chunk::KindOf(record) != RecordKind::kStatistics;
  MSITD_CHECK(record.tensor_bytes == (is_empty || !has_bytes ? 0 : bytes));
  MSITD_CHECK(record.part_offset % kPartBytes == 0);
  MSITD_CHECK(record.payload_offset % kRecordAlignment == 0);
  MSITD_CHECK(record.payload_bytes <= chunk.header().payload_bytes);
  MSITD_CHECK(record.payload_offset <=
              chunk.header().payload_bytes - record.payload_bytes);
}

// The payload of the frame is within the bounds for the payload of a producer.
void UseFramePayload(const chunk::Chunk& chunk) {
  MSITD_CHECK(chunk.stored_payload_bytes() <= kChunkPayloadBytesMax);
  chunk::FramePayload payload(chunk.header());
  for (const chunk::RecordDescriptor& record : chunk.records()) {
    const chunk::FramePayload::RecordBytes place = payload.Next(record);
    MSITD_CHECK(place.bytes <= record.payload_bytes);
    MSITD_CHECK(place.offset % kRecordAlignment == 0);
    MSITD_CHECK(place.bytes == 0 ||
                place.offset + place.bytes <= chunk.stored_payload_bytes());
  }
}

}  // namespace

void UseHead(const chunk::Chunk& chunk) {
  MSITD_CHECK(!chunk.run().empty());
  UseName(chunk.run(), kRunNameBytesMax);
  MSITD_CHECK(chunk.header().rank >= 0 && chunk.header().rank <= kRankMax);
  MSITD_CHECK(chunk.records().size() <= kChunkRecordsMax);
  for (const chunk::RecordDescriptor& record : chunk.records()) {
    UseRecord(chunk, record);
  }
  UseFramePayload(chunk);
}

void UsePayload(const chunk::Chunk& chunk) {
  ContentHash sum;
  for (const chunk::RecordDescriptor& record : chunk.records()) {
    const ContentHash hash = chunk::HashBytes(chunk.PayloadOf(record));
    sum.low ^= hash.low;
  }
  // Prevents the compiler from removing the reads.
  volatile uint64_t sink = sum.low;
  (void)sink;
}

}  // namespace msitd::fuzz
