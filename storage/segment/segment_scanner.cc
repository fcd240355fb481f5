// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_scanner.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

// Size of a read while searching for frames page by page.
constexpr uint64_t kWindowBytes = uint64_t{1} << 20;

template <typename... Args>
absl::Status Corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return WithReason(MakeStatus(absl::StatusCode::kDataLoss, format,
                               std::forward<Args>(args)...),
                    ErrorReason::kFrameCorrupt);
}

}  // namespace

absl::Status SegmentScanner::ReadFully(uint64_t offset,
                                       std::span<std::byte> out) {
  MSITD_ASSIGN_OR_RETURN(const uint64_t bytes, file_.Read(offset, out));
  if (bytes < out.size()) {
    return Corrupt("the file ends {} bytes behind {}", bytes, offset);
  }
  return absl::OkStatus();
}

absl::StatusOr<FoundFrame> SegmentScanner::FrameAt(uint64_t offset) {
  if (offset + kChunkAlignment > place_.end_bytes) {
    return Corrupt("the file ends inside the head");
  }
  AlignedBuffer head(kChunkAlignment);
  MSITD_RETURN_IF_ERROR(ReadFully(offset, head.span()));
  MSITD_ASSIGN_OR_RETURN(const uint64_t span,
                         chunk::FrameHeadSpan(head.span()));
  if (offset + span > place_.end_bytes) {
    return Corrupt("the file ends inside the head");
  }
  if (span > head.size()) {
    head = AlignedBuffer(span);
    MSITD_RETURN_IF_ERROR(ReadFully(offset, head.span()));
  }
  MSITD_ASSIGN_OR_RETURN(chunk::Chunk chunk,
                         chunk::Chunk::FromFrame(std::move(head)));
  const chunk::ChunkHeader& header = chunk.header();
  if (header.store_id != place_.store_id ||
      header.segment_id != ToNumber(place_.segment) ||
      header.frame_offset != offset) {
    return Corrupt("a stale frame, of store {:016x} segment {} offset {}",
                   header.store_id, header.segment_id, header.frame_offset);
  }
  if (header.frame_sequence < frame_sequence_min_) {
    return Corrupt("a stale frame: its sequence {} is below {}",
                   header.frame_sequence, frame_sequence_min_);
  }
  const bool is_complete = offset + chunk.frame_bytes() <= place_.end_bytes;
  return FoundFrame{offset, std::move(chunk), is_complete};
}

absl::StatusOr<std::optional<FoundFrame>> SegmentScanner::TryFrameAt(
    uint64_t offset) {
  absl::StatusOr<FoundFrame> frame = FrameAt(offset);
  if (frame.ok()) return std::optional<FoundFrame>(*std::move(frame));
  if (!absl::IsDataLoss(frame.status())) return frame.status();
  return std::optional<FoundFrame>();
}

absl::StatusOr<std::optional<uint64_t>> SegmentScanner::ClaimedEnd(
    uint64_t offset) {
  if (offset + kChunkAlignment > place_.end_bytes) return std::nullopt;
  AlignedBuffer page(kChunkAlignment);
  MSITD_RETURN_IF_ERROR(ReadFully(offset, page.span()));
  const absl::StatusOr<uint64_t> head_span = chunk::FrameHeadSpan(page.span());
  if (!head_span.ok()) return std::nullopt;
  chunk::ChunkHeader header;
  std::memcpy(&header, page.data(), sizeof(header));
  const std::optional<uint64_t> payload_bytes =
      chunk::StoredPayloadBytes(header);
  if (!payload_bytes.has_value()) return std::nullopt;
  return offset + *head_span + *payload_bytes;
}

absl::StatusOr<std::optional<FoundFrame>> SegmentScanner::FindBehind(
    uint64_t offset) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<uint64_t> claimed,
                         ClaimedEnd(offset));
  if (claimed.has_value()) {
    MSITD_ASSIGN_OR_RETURN(std::optional<FoundFrame> frame,
                           TryFrameAt(*claimed));
    if (frame.has_value()) return frame;
  }
  if (window_.size() == 0) window_ = AlignedBuffer(kWindowBytes);
  for (uint64_t begin = offset + kChunkAlignment; begin < place_.end_bytes;
       begin += kWindowBytes) {
    MSITD_ASSIGN_OR_RETURN(const uint64_t bytes,
                           file_.Read(begin, window_.span()));
    for (uint64_t at = 0; at + kChunkAlignment <= bytes;
         at += kChunkAlignment) {
      if (std::memcmp(window_.data() + at, &chunk::kMagic,
                      sizeof(chunk::kMagic)) != 0) {
        continue;
      }
      MSITD_ASSIGN_OR_RETURN(std::optional<FoundFrame> frame,
                             TryFrameAt(begin + at));
      if (frame.has_value()) return frame;
    }
    if (bytes < kWindowBytes) break;
  }
  return std::nullopt;
}

absl::StatusOr<ScanStep> SegmentScanner::Next() {
  ScanStep step;
  if (offset_ >= place_.end_bytes) return step;
  absl::StatusOr<FoundFrame> here = FrameAt(offset_);
  if (here.ok()) {
    step.frame = *std::move(here);
  } else if (absl::IsDataLoss(here.status())) {
    MSITD_ASSIGN_OR_RETURN(step.frame, FindBehind(offset_));
    const uint64_t end =
        step.frame.has_value() ? step.frame->offset : place_.end_bytes;
    step.gap =
        SegmentGap{offset_, end - offset_, std::string(Message(here.status()))};
  } else {
    return here.status();
  }
  offset_ = step.frame.has_value() ? step.frame->end() : place_.end_bytes;
  if (step.frame.has_value()) {
    frame_sequence_min_ = step.frame->chunk.header().frame_sequence + 1;
  }
  return step;
}

bool IsIntact(const chunk::Chunk& chunk, const chunk::RecordDescriptor& record,
              std::span<const std::byte> bytes) {
  // The hash covers data in the head, or bytes at another location.
  if (!chunk.HasOwnBytes(record)) return true;
  switch (chunk.kept()) {
    case chunk::Kept::kAll:
      return chunk::HashBytes(bytes) == record.hash;
    case chunk::Kept::kSample:
      return chunk::HashSample(bytes) == record.sample_hash;
    case chunk::Kept::kNothing:
      break;
  }
  return true;
}

absl::Status VerifyPayload(File& file, const FoundFrame& frame,
                           AlignedBuffer& buffer) {
  const chunk::Chunk& chunk = frame.chunk;
  if (chunk.kept() == chunk::Kept::kNothing) return absl::OkStatus();
  const uint64_t bytes = chunk.stored_payload_bytes();
  if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
  MSITD_ASSIGN_OR_RETURN(const uint64_t read,
                         file.Read(frame.offset + chunk.head().size(),
                                   buffer.span().first(bytes)));
  if (read < bytes) return Corrupt("the file ends inside the payload");
  chunk::FramePayload payload(chunk.header());
  for (size_t i = 0; i < chunk.records().size(); ++i) {
    const chunk::RecordDescriptor& record = chunk.records()[i];
    const chunk::FramePayload::RecordBytes place = payload.Next(record);
    const auto content = std::span<const std::byte>(buffer.span())
                             .subspan(place.offset, place.bytes);
    if (!IsIntact(chunk, record, content)) {
      return Corrupt("record {} of op {} does not match its hash", i,
                     chunk.Text(record.op));
    }
  }
  return absl::OkStatus();
}

}  // namespace msitd::storage
