// SPDX-License-Identifier: Apache-2.0
#include "protos/chunk/draft_reader.h"

#include <algorithm>
#include <cstring>

#include "protos/chunk/chunk_checks.h"
#include "protos/status/status.h"

namespace msitd::chunk {
namespace {

RecordDescriptor Copy(const DraftRecord& from) {
  RecordDescriptor out;
  auto* bytes = reinterpret_cast<std::byte*>(&out);
  std::memcpy(bytes, from.begin, sizeof(from.begin));
  std::memcpy(bytes + offsetof(RecordDescriptor, payload_offset), from.end,
              sizeof(from.end));
  return out;
}

// Makes offsets count from the start of the head. An invalid offset may then
// point anywhere; the checks of the head detect it.
void Shift(DraftContents& contents, uint32_t by) {
  for (RecordDescriptor& record : contents.records) {
    const uint64_t extra_at = ExtraOffset(record);
    ShiftTexts(record, by);
    if ((record.flags & kExtraFlag) == 0 ||
        extra_at + sizeof(RecordExtra) > contents.text.size()) {
      continue;
    }
    RecordExtra extra;
    std::memcpy(&extra, contents.text.data() + extra_at, sizeof(extra));
    ShiftTexts(extra, by);
    std::memcpy(contents.text.data() + extra_at, &extra, sizeof(extra));
  }
}

}  // namespace

absl::Status ReadDraft(std::span<const std::byte> piece, std::string_view run,
                       DraftContents& contents) {
  const auto& draft = *reinterpret_cast<const DraftHeader*>(piece.data());
  const auto* records =
      reinterpret_cast<const DraftRecord*>(piece.data() + sizeof(DraftHeader));
  // Pairs with the store in Draft::Add.
  const uint32_t count = draft.record_count.load(std::memory_order_acquire);
  const uint32_t text_bytes = draft.text_bytes.load(std::memory_order_relaxed);
  if (count > kChunkRecordsMax || text_bytes > kDraftTextBytesMax) {
    return Malformed("a draft of {} records and {} bytes of text", count,
                     text_bytes);
  }
  ChunkHeader& header = contents.header;
  for (uint32_t i = 0; i < count; ++i) {
    // Pairs with the store in Draft::SetWritten.
    if (records[i].is_written.load(std::memory_order_acquire) != 1) continue;
    const RecordDescriptor& record =
        contents.records.emplace_back(Copy(records[i]));
    header.version = std::max(header.version, VersionFor(record.flags));
    header.payload_bytes = std::max(
        header.payload_bytes, record.payload_offset + record.payload_bytes);
  }
  const auto shift = static_cast<uint32_t>(
      sizeof(ChunkHeader) + contents.records.size() * sizeof(RecordDescriptor));
  contents.text.assign(
      reinterpret_cast<const char*>(piece.data() + kDraftTextOffset),
      text_bytes);
  Shift(contents, shift);
  contents.text += run;
  header.run = {shift + text_bytes, static_cast<uint32_t>(run.size())};
  header.record_count = static_cast<uint32_t>(contents.records.size());
  header.head_bytes = shift + static_cast<uint32_t>(contents.text.size());
  header.client_time_ns = draft.client_time_ns.load(std::memory_order_relaxed);
  header.flags = draft.flags.load(std::memory_order_relaxed);
  return absl::OkStatus();
}

}  // namespace msitd::chunk
