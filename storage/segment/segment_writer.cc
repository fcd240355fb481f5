// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_writer.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

// Space is preallocated in steps. The number of calls is insignificant, and a
// small run does not occupy the disk space of a whole segment.
constexpr uint64_t kPreallocateStepBytes = uint64_t{64} << 20;

// Smaller frames are written together, because a disk is faster with larger
// writes.
constexpr uint64_t kWriteBytesMin = uint64_t{8} << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<SegmentWriter>> SegmentWriter::Create(
    Env& env, const std::string& path, const SegmentHeader& header,
    uint64_t expected_bytes, bool direct) {
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<File> file, env.Create(path, direct));
  AlignedBuffer page(kSegmentHeaderBytes);
  EncodeSegmentHeader(header, page.span());
  const std::array<std::span<const std::byte>, 1> pieces = {page.span()};
  if (absl::Status status = file->Write(0, pieces); !status.ok()) {
    // Nothing refers to the file yet. If it remains, Open ignores it.
    file.reset();
    env.Remove(path).IgnoreError();
    return Annotate(status, "begin segment " + path);
  }
  std::unique_ptr<SegmentWriter> writer(
      new SegmentWriter(std::move(file), header, expected_bytes));
  writer->placed_bytes_ = kSegmentHeaderBytes;
  writer->written_bytes_ = kSegmentHeaderBytes;
  return writer;
}

absl::Status SegmentWriter::Latch(absl::Status status, std::string_view what) {
  if (!status.ok()) {
    status_ = Annotate(status,
                       fmt::format("{} segment {}", what, header_.segment_id));
  }
  return status_;
}

void SegmentWriter::MakeRoom(uint64_t end) {
  if (!asks_ahead_ || !can_ask_ahead_ || end <= preallocated_bytes_ ||
      end > expected_bytes_) {
    return;
  }
  const uint64_t target = std::min(AlignUp(end, kPreallocateStepBytes),
                                   AlignUp(expected_bytes_, kChunkAlignment));
  // A refusal is not an error: the disk may still have room for the frame.
  can_ask_ahead_ = file_->Preallocate(target).ok();
  if (can_ask_ahead_) preallocated_bytes_ = target;
}

std::span<const std::byte> SegmentWriter::PayloadToKeep(chunk::Chunk& chunk) {
  switch (chunk.kept()) {
    case chunk::Kept::kAll:
      return chunk.payload();
    case chunk::Kept::kSample:
      return chunk.GatherSamples(samples_);
    case chunk::Kept::kNothing:
      break;
  }
  return {};
}

void SegmentWriter::Place(chunk::Chunk& chunk, const FrameStamp& stamp) {
  chunk::ChunkHeader& header = chunk.header();
  header.run_id = ToNumber(stamp.run);
  header.segment_id = header_.segment_id;
  header.frame_offset = placed_bytes_;
  header.durable_bytes = durable_bytes_;
  header.frame_sequence = stamp.frame_sequence;
  header.receive_time_ns = stamp.receive_time_ns;
  header.store_id = header_.store_id;
  placed_bytes_ += chunk.frame_bytes();
}

absl::Status SegmentWriter::Write(std::span<const LogFrame> frames,
                                  Stamp stamp) {
  if (!status_.ok()) return status_;
  uint64_t end = written_bytes_;
  for (const LogFrame& frame : frames) {
    chunk::Chunk* const chunk = frame.chunk;
    MSITD_CHECK(chunk->header().frame_offset == end);
    pieces_.push_back(chunk->head());
    pieces_.push_back(PayloadToKeep(*chunk));
    stamp(*chunk);
    chunk->StampChecksum();
    end += chunk->frame_bytes();
    // The next samples use the same buffer, so these are written first.
    if (chunk->kept() == chunk::Kept::kSample ||
        end - written_bytes_ >= kWriteBytesMin) {
      MSITD_RETURN_IF_ERROR(WritePieces(end));
    }
  }
  return WritePieces(end);
}

absl::Status SegmentWriter::WritePieces(uint64_t end) {
  if (pieces_.empty()) return absl::OkStatus();
  MakeRoom(end);
  const absl::Status status = file_->Write(written_bytes_, pieces_);
  pieces_.clear();
  MSITD_RETURN_IF_ERROR(Latch(status, "append to"));
  written_bytes_ = end;
  return absl::OkStatus();
}

absl::Status SegmentWriter::Sync() {
  if (!status_.ok()) return status_;
  MSITD_RETURN_IF_ERROR(Latch(file_->Sync(), "sync"));
  durable_bytes_ = written_bytes_;
  return absl::OkStatus();
}

void SegmentWriter::Seal(uint64_t end_bytes) {
  if (status_.ok()) status_ = absl::FailedPreconditionError("sealed");
  file_->Truncate(end_bytes).IgnoreError();
}

}  // namespace msitd::storage
