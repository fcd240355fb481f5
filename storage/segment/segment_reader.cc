// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_reader.h"

#include "protos/base/limits.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::storage {
namespace {

absl::Status Corrupt(SegmentId segment, uint64_t offset, uint64_t bytes,
                     std::string_view what) {
  return WithReason(MakeStatus(absl::StatusCode::kDataLoss,
                               "segment {} at offset {}: {} bytes {}",
                               ToNumber(segment), offset, bytes, what),
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

absl::StatusOr<uint64_t> SegmentReader::ReadPages(SegmentId segment,
                                                  uint64_t offset,
                                                  std::span<std::byte> out) {
  MSITD_ASSIGN_OR_RETURN(const SharedFile file, Open(segment));
  absl::StatusOr<uint64_t> read = file->Read(offset, out);
  if (read.ok()) return read;
  return WithReason(Annotate(read.status(),
                             fmt::format("read segment {}", ToNumber(segment))),
                    "STORAGE_FAILED");
}

absl::StatusOr<std::span<const std::byte>> SegmentReader::ReadUnchecked(
    SegmentId segment, uint64_t offset, uint64_t bytes, AlignedBuffer& buffer) {
  const auto corrupt = [&](std::string_view what) {
    return Corrupt(segment, offset, bytes, what);
  };
  if (bytes > kPartBytes) return corrupt("are no part");
  if (bytes == 0) return std::span<const std::byte>();
  const uint64_t begin = offset / kChunkAlignment * kChunkAlignment;
  const uint64_t skip = offset - begin;
  const uint64_t span = AlignUp(skip + bytes, kChunkAlignment);
  if (buffer.size() < span) buffer = AlignedBuffer(span);
  MSITD_ASSIGN_OR_RETURN(const uint64_t read,
                         ReadPages(segment, begin, buffer.span().first(span)));
  if (read < skip + bytes) return corrupt("are cut short");
  return std::span<const std::byte>(buffer.span()).subspan(skip, bytes);
}

absl::StatusOr<std::span<const std::byte>> SegmentReader::Read(
    const PartLocation& part, AlignedBuffer& buffer) {
  MSITD_ASSIGN_OR_RETURN(
      const auto bytes,
      ReadUnchecked(part.segment, part.offset, part.bytes, buffer));
  if (!bytes.empty() && chunk::HashBytes(bytes) != part.hash) {
    return Corrupt(part.segment, part.offset, part.bytes,
                   "do not match their hash");
  }
  return bytes;
}

absl::StatusOr<std::span<const std::byte>> SegmentReader::ReadSample(
    const PartLocation& part, uint64_t bytes, AlignedBuffer& buffer) {
  MSITD_ASSIGN_OR_RETURN(
      const auto sample,
      ReadUnchecked(part.segment, part.offset, bytes, buffer));
  if (!sample.empty() && chunk::HashSample(sample) != part.sample_hash) {
    return Corrupt(part.segment, part.offset, bytes,
                   "of a sample do not match their hash");
  }
  return sample;
}

}  // namespace msitd::storage
