// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "protos/base/check.h"
#include "protos/base/sample.h"
#include "protos/status/status.h"
#include "storage/chunk_store_impl.h"
#include "storage/planned_reads.h"

namespace msitd::storage {
namespace {

absl::Status TensorExpired(const PartLocation& part) {
  return WithReason(
      MakeStatus(absl::StatusCode::kNotFound,
                 "the bytes in segment {} at offset {} are not kept",
                 ToNumber(part.segment), part.offset),
      "TENSOR_EXPIRED");
}

}  // namespace

// What planned reads do not have, since it went or moved on or lies where the
// disk cannot be read, is read alone.
class ChunkStoreImpl::Batch final : public PartBatch {
 public:
  Batch(ChunkStoreImpl& store, std::span<const PartLocation> parts,
        AlignedBuffer& buffer)
      : store_(store), reads_(store.reader_, store.read_pool_, parts, buffer) {}

  size_t size() const override { return reads_.size(); }

  absl::StatusOr<std::span<const std::byte>> Read(size_t index) override {
    MSITD_CHECK(index < size());
    const PartLocation& part = reads_.part(index);
    if (!part.has_bytes || store_.IsExpired(part)) return TensorExpired(part);
    if (const auto bytes = reads_.Find(index)) return *bytes;
    AlignedBuffer alone;
    MSITD_ASSIGN_OR_RETURN(const auto bytes, store_.ReadPart(part, alone));
    const MutexLock lock(mu_);
    read_alone_.push_back(std::move(alone));
    return bytes;
  }

 private:
  ChunkStoreImpl& store_;
  PlannedReads reads_;
  Mutex mu_;
  std::vector<AlignedBuffer> read_alone_ ABSL_GUARDED_BY(mu_);
};

bool ChunkStoreImpl::IsExpired(const PartLocation& part) const {
  return index_->expiry().IsExpired(part.segment, part.run, part.offset);
}

absl::StatusOr<std::span<const std::byte>> ChunkStoreImpl::ReadPart(
    const PartLocation& part, AlignedBuffer& buffer) {
  if (!part.has_bytes || IsExpired(part)) return TensorExpired(part);
  auto bytes = reader_.Read(part, buffer);
  if (absl::IsDataLoss(bytes.status())) {
    bytes = ReadShared(part, bytes.status(), buffer);
  }
  // They may have gone while they were read.
  if (!bytes.ok() && IsExpired(part)) return TensorExpired(part);
  return bytes;
}

std::unique_ptr<PartBatch> ChunkStoreImpl::ReadParts(
    std::span<const PartLocation> parts, AlignedBuffer& buffer) {
  return std::make_unique<Batch>(*this, parts, buffer);
}

absl::StatusOr<std::span<const std::byte>> ChunkStoreImpl::ReadSample(
    const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) {
  MSITD_CHECK(part < tensor.parts.size());
  const PartLocation& place = tensor.parts[part];
  const SampleSlice slice =
      SampleOf(TensorPart{.dtype = tensor.dtype,
                          .tensor_bytes = tensor.tensor_bytes,
                          .offset = part * kPartBytes});
  if (place.has_sample) {
    if (IsExpired(place)) return TensorExpired(place);
    auto sample = reader_.ReadSample(place, slice.bytes(), buffer);
    if (!sample.ok() && IsExpired(place)) return TensorExpired(place);
    return sample;
  }
  if (slice.count == 0 && place.has_bytes) return std::span<const std::byte>();
  MSITD_ASSIGN_OR_RETURN(const auto bytes, ReadPart(place, buffer));
  GatherSample(slice, bytes, buffer.span());
  return std::span<const std::byte>(buffer.span()).first(slice.bytes());
}

absl::StatusOr<std::span<const std::byte>> ChunkStoreImpl::ReadShared(
    const PartLocation& part, const absl::Status& failure,
    AlignedBuffer& buffer) {
  PartLocation found = part;
  absl::Status status = failure;
  // The bytes may move on while they are read: forward in the log, each time.
  while (true) {
    MSITD_ASSIGN_OR_RETURN(
        const std::optional<BytePlace> place,
        index_->shared().Find({part.run, part.hash, part.bytes}));
    if (!place.has_value()) {
      // All that a deleted run had goes from the index at once.
      MSITD_ASSIGN_OR_RETURN(
          const std::optional<uint64_t> live,
          index_->segments().LiveBytes(part.segment, part.run));
      return live.has_value() ? status : TensorExpired(part);
    }
    if (*place <= BytePlace{ToNumber(found.segment), found.offset}) {
      return status;
    }
    found.segment = SegmentId{place->segment_id};
    found.offset = place->offset;
    auto bytes = reader_.Read(found, buffer);
    if (!absl::IsDataLoss(bytes.status())) return bytes;
    status = bytes.status();
  }
}

}  // namespace msitd::storage
