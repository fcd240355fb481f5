// SPDX-License-Identifier: Apache-2.0
#include "storage/read/part_reader.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "protos/base/check.h"
#include "protos/base/sample.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"
#include "storage/read/planned_reads.h"

namespace msitd::storage {
namespace {

absl::Status TensorExpired(const PartInfo& part) {
  return WithReason(
      MakeStatus(absl::StatusCode::kNotFound,
                 "the bytes in segment {} at offset {} are not kept",
                 part.place.file, part.place.offset),
      ErrorReason::kTensorExpired);
}

}  // namespace

// Parts that the planned reads could not provide are read separately: they were
// discarded or moved, or the disk could not be read there.
class PartReader::Batch final : public PartBatch {
 public:
  Batch(PartReader& reader, RunId run, std::span<const PartInfo> parts,
        AlignedBuffer& buffer)
      : reader_(reader),
        run_(run),
        parts_(parts),
        moved_(Move(parts)),
        reads_(reader.segments_, reader.pool_, moved_.empty() ? parts : moved_,
               buffer) {}

  size_t size() const override { return reads_.size(); }

  absl::StatusOr<std::span<const std::byte>> Read(size_t index) override {
    MSITD_CHECK(index < size());
    const PartInfo& part = parts_[index];
    if (!part.has_bytes || reader_.IsExpired(run_, part)) {
      return TensorExpired(part);
    }
    if (const auto bytes = reads_.Find(index)) return *bytes;
    AlignedBuffer alone;
    MSITD_ASSIGN_OR_RETURN(const auto bytes, reader_.Read(run_, part, alone));
    const MutexLock lock(mu_);
    read_alone_.push_back(std::move(alone));
    return bytes;
  }

 private:
  // Returns the parts with the current locations of their bytes; empty if all
  // are at their original locations.
  std::vector<PartInfo> Move(std::span<const PartInfo> parts) {
    if (!reader_.index_->shared().HasEntries(run_)) return {};
    parts = parts.first(std::min(parts.size(), kBatchPartsMax));
    std::vector<PartInfo> out(parts.begin(), parts.end());
    for (PartInfo& part : out) part.place = reader_.PlaceOf(run_, part);
    return out;
  }

  PartReader& reader_;
  const RunId run_;
  const std::span<const PartInfo> parts_;
  const std::vector<PartInfo> moved_;
  PlannedReads reads_;
  Mutex mu_;
  std::vector<AlignedBuffer> read_alone_ ABSL_GUARDED_BY(mu_);
};

bool PartReader::IsExpired(RunId run, const PartInfo& part) {
  return index_->expiry().IsExpired(SegmentId{part.place.file}, run,
                                    part.place.offset);
}

PartPlace PartReader::PlaceOf(RunId run, const PartInfo& part) {
  if (part.bytes < kSharedBytesMin || !index_->shared().HasEntries(run)) {
    return part.place;
  }
  // If the lookup fails, the bytes may still be at their original location.
  const auto place = index_->shared().Find({run, part.hash, part.bytes});
  if (!place.ok() || !place->has_value()) return part.place;
  // A part that was written after the shared location has its own copy until it
  // is shared.
  const PartPlace shared{(*place)->segment_id, (*place)->offset};
  return std::max(part.place, shared);
}

absl::Status PartReader::FailureOf(RunId run, const PartInfo& part,
                                   const absl::Status& failure) {
  // All entries of a deleted run are removed from the index at once, so a
  // segment without bytes of the run means that the run was deleted.
  MSITD_ASSIGN_OR_RETURN(
      const std::optional<uint64_t> live,
      index_->segments().LiveBytes(SegmentId{part.place.file}, run));
  return live.has_value() ? failure : TensorExpired(part);
}

absl::StatusOr<PartPlace> PartReader::NextPlace(RunId run, const PartInfo& part,
                                                const PartPlace& place,
                                                const absl::Status& failure) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<BytePlace> shared,
                         index_->shared().Find({run, part.hash, part.bytes}));
  if (!shared.has_value()) return FailureOf(run, part, failure);
  const PartPlace next{shared->segment_id, shared->offset};
  if (next <= place) return failure;
  return next;
}

absl::StatusOr<std::span<const std::byte>> PartReader::Read(
    RunId run, const PartInfo& part, AlignedBuffer& buffer) {
  if (!part.has_bytes || IsExpired(run, part)) return TensorExpired(part);
  PartInfo found = part;
  found.place = PlaceOf(run, part);
  while (true) {
    const auto bytes = segments_.Read(found, buffer);
    if (bytes.ok()) return bytes;
    // The bytes may have been discarded or moved while they were read. They
    // only move forward in the log, so the loop terminates.
    if (IsExpired(run, part)) return TensorExpired(part);
    if (!absl::IsDataLoss(bytes.status())) return bytes;
    const auto next = NextPlace(run, part, found.place, bytes.status());
    if (!next.ok())
      return IsExpired(run, part) ? TensorExpired(part) : next.status();
    found.place = *next;
  }
}

std::unique_ptr<PartBatch> PartReader::ReadBatch(
    RunId run, std::span<const PartInfo> parts, AlignedBuffer& buffer) {
  return std::make_unique<Batch>(*this, run, parts, buffer);
}

absl::StatusOr<std::span<const std::byte>> PartReader::ReadSample(
    RunId run, const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) {
  MSITD_CHECK(part < tensor.parts.size());
  const PartInfo& place = tensor.parts[part];
  const SampleSlice slice =
      SampleOf(TensorPart{.dtype = tensor.dtype,
                          .tensor_bytes = tensor.tensor_bytes,
                          .offset = part * kPartBytes});
  if (place.has_sample) {
    if (IsExpired(run, place)) return TensorExpired(place);
    auto sample = segments_.ReadSample(place, slice.bytes(), buffer);
    if (sample.ok()) return sample;
    return IsExpired(run, place) ? TensorExpired(place)
                                 : FailureOf(run, place, sample.status());
  }
  if (slice.count == 0 && place.has_bytes) return std::span<const std::byte>();
  MSITD_ASSIGN_OR_RETURN(const auto bytes, Read(run, place, buffer));
  GatherSample(slice, bytes, buffer.span());
  return std::span<const std::byte>(buffer.span()).first(slice.bytes());
}

}  // namespace msitd::storage
