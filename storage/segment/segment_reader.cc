// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_reader.h"

#include <cstring>

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
                    ErrorReason::kFrameCorrupt);
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
    return WithReason(
        MakeStatus(absl::StatusCode::kDataLoss,
                   "the file {} of the store is not there, so the bytes in it "
                   "cannot be read until it is back",
                   SegmentFileName(segment)),
        ErrorReason::kSegmentMissing);
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
  around_.Forget(segment);
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
                    ErrorReason::kStorageFailed);
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

bool SegmentReader::ReadOn(const PartPlace& place, std::span<std::byte> out) {
  const uint64_t begin = place.offset / kChunkAlignment * kChunkAlignment;
  auto memory = std::make_shared<AlignedBuffer>(ReadAround::kWindowBytes);
  const absl::StatusOr<uint64_t> read =
      ReadPages(SegmentId{place.file}, begin, memory->span());
  const uint64_t skip = place.offset - begin;
  if (!read.ok() || *read < skip + out.size()) return false;
  std::memcpy(out.data(), memory->data() + skip, out.size());
  around_.Add({place.file, begin, *read, std::move(memory)});
  return true;
}

absl::StatusOr<std::span<const std::byte>> SegmentReader::ReadChecked(
    const PartInfo& part, uint64_t bytes, AlignedBuffer& buffer,
    absl::FunctionRef<bool(std::span<const std::byte>)> is_right) {
  const SegmentId segment{part.place.file};
  const uint64_t offset = part.place.offset;
  if (bytes > 0 && bytes <= ReadAround::kPieceBytesMax) {
    if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
    const std::span<std::byte> out = buffer.span().first(bytes);
    bool is_next = false;
    if ((around_.Find(segment, offset, out, is_next) ||
         (is_next && ReadOn(part.place, out))) &&
        is_right(out)) {
      return out;
    }
  }
  MSITD_ASSIGN_OR_RETURN(const auto out,
                         ReadUnchecked(segment, offset, bytes, buffer));
  if (out.empty() || is_right(out)) return out;
  return Corrupt(segment, offset, bytes, "do not match their hash");
}

absl::StatusOr<std::span<const std::byte>> SegmentReader::Read(
    const PartInfo& part, AlignedBuffer& buffer) {
  return ReadChecked(part, part.bytes, buffer,
                     [&part](std::span<const std::byte> bytes) {
                       return chunk::HashBytes(bytes) == part.hash;
                     });
}

absl::StatusOr<std::span<const std::byte>> SegmentReader::ReadSample(
    const PartInfo& part, uint64_t bytes, AlignedBuffer& buffer) {
  return ReadChecked(part, bytes, buffer,
                     [&part](std::span<const std::byte> sample) {
                       return chunk::HashSample(sample) == part.sample_hash;
                     });
}

}  // namespace msitd::storage
