// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_reader.h"

#include "protos/base/limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

absl::Status Corrupt(const PartLocation& part, std::string_view what) {
  return WithReason(
      MakeStatus(absl::StatusCode::kDataLoss,
                 "segment {} at offset {}: {} bytes {}", ToNumber(part.segment),
                 part.offset, part.bytes, what),
      "FRAME_CORRUPT");
}

}  // namespace

absl::StatusOr<SegmentReader::SharedFile> SegmentReader::Open(
    SegmentId segment) {
  const uint64_t number = ToNumber(segment);
  {
    const MutexLock lock(mu_);
    const auto it = entries_.find(number);
    if (it != entries_.end()) {
      recent_.splice(recent_.begin(), recent_, it->second);
      return it->second->file;
    }
  }
  absl::StatusOr<std::unique_ptr<File>> opened =
      env_.OpenForRead(directory_ + "/" + SegmentFileName(segment), direct_);
  if (absl::IsNotFound(opened.status())) {
    return WithReason(MakeStatus(absl::StatusCode::kNotFound,
                                 "segment {} is no longer kept", number),
                      "TENSOR_EXPIRED");
  }
  if (!opened.ok()) return opened.status();
  SharedFile file = *std::move(opened);
  const MutexLock lock(mu_);
  const auto it = entries_.find(number);
  if (it != entries_.end()) return it->second->file;
  recent_.push_front({number, file});
  entries_[number] = recent_.begin();
  if (recent_.size() > kOpenSegmentsMax) {
    entries_.erase(recent_.back().segment);
    recent_.pop_back();
  }
  return file;
}

void SegmentReader::Forget(SegmentId segment) {
  const MutexLock lock(mu_);
  const auto it = entries_.find(ToNumber(segment));
  if (it == entries_.end()) return;
  recent_.erase(it->second);
  entries_.erase(it);
}

absl::StatusOr<std::span<const std::byte>> SegmentReader::Read(
    const PartLocation& part, AlignedBuffer& buffer) {
  MSITD_ASSIGN_OR_RETURN(const auto bytes, ReadUnchecked(part, buffer));
  if (!bytes.empty() && chunk::HashBytes(bytes) != part.hash) {
    return Corrupt(part, "do not match their hash");
  }
  return bytes;
}

absl::StatusOr<std::span<const std::byte>> SegmentReader::ReadSample(
    const PartLocation& part, uint64_t bytes, AlignedBuffer& buffer) {
  PartLocation sample = part;
  sample.bytes = bytes;
  MSITD_ASSIGN_OR_RETURN(const auto read, ReadUnchecked(sample, buffer));
  if (!read.empty() && chunk::HashSample(read) != part.sample_hash) {
    return Corrupt(sample, "of a sample do not match their hash");
  }
  return read;
}

absl::StatusOr<std::span<const std::byte>> SegmentReader::ReadUnchecked(
    const PartLocation& part, AlignedBuffer& buffer) {
  if (part.bytes > kPartBytes) return Corrupt(part, "are no part");
  if (part.bytes == 0) return std::span<const std::byte>();
  const uint64_t begin = part.offset / kChunkAlignment * kChunkAlignment;
  const uint64_t skip = part.offset - begin;
  const uint64_t span = AlignUp(skip + part.bytes, kChunkAlignment);
  if (buffer.size() < span) buffer = AlignedBuffer(span);
  MSITD_ASSIGN_OR_RETURN(const SharedFile file, Open(part.segment));
  const absl::StatusOr<uint64_t> read =
      file->Read(begin, buffer.span().first(span));
  if (!read.ok()) {
    return WithReason(
        Annotate(read.status(),
                 fmt::format("read segment {}", ToNumber(part.segment))),
        "STORAGE_FAILED");
  }
  if (*read < skip + part.bytes) return Corrupt(part, "are cut short");
  return std::span<const std::byte>(buffer.span()).subspan(skip, part.bytes);
}

}  // namespace msitd::storage
