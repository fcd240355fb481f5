// SPDX-License-Identifier: Apache-2.0
#include "storage/upkeep/sharer.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "protos/base/limits.h"
#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/index/record_entry.h"

namespace msitd::storage {
namespace {

// Sorts the ranges in the order of the log and joins those with only padding
// between them: records begin at multiples of kRecordAlignment, so a shorter
// gap is padding.
std::vector<ByteRange> Joined(std::vector<ByteRange> ranges) {
  std::sort(
      ranges.begin(), ranges.end(),
      [](const ByteRange& a, const ByteRange& b) { return a.begin < b.begin; });
  std::vector<ByteRange> out;
  for (const ByteRange& range : ranges) {
    if (!out.empty() && out.back().begin.segment_id == range.begin.segment_id) {
      ByteRange& last = out.back();
      const uint64_t end = last.begin.offset + last.bytes;
      if (range.begin.offset < end + kRecordAlignment) {
        last.bytes =
            std::max(end, range.begin.offset + range.bytes) - last.begin.offset;
        continue;
      }
    }
    out.push_back(range);
  }
  return out;
}

}  // namespace

std::string Sharer::PathOf(uint64_t segment) const {
  return segment_directory_ + "/" + SegmentFileName(SegmentId{segment});
}

bool Sharer::IsExpired(const BytePlace& place, RunId run) {
  return index_.expiry().IsExpired(SegmentId{place.segment_id}, run,
                                   place.offset);
}

absl::StatusOr<Sharer::Outcome> Sharer::Step(uint64_t sealed_end) {
  absl::StatusOr<Outcome> outcome = TryStep(sealed_end);
  // Starts again from the index, because the results of this step were not
  // written there.
  if (!outcome.ok()) is_loaded_ = false;
  return outcome;
}

absl::StatusOr<Sharer::Outcome> Sharer::TryStep(uint64_t sealed_end) {
  Outcome outcome;
  if (!has_holes_) return outcome;
  if (!is_loaded_) MSITD_RETURN_IF_ERROR(Load());
  if (!unfreed_.empty()) {
    outcome.is_done = false;
    MSITD_RETURN_IF_ERROR(Free(outcome));
    return outcome;
  }
  heads_left_ = kHeadsPerStep;
  bytes_left_ = kBytesPerStep;
  found_ = {};
  const uint64_t segment_before = segment_;
  while (segment_ < sealed_end && heads_left_ > 0 && bytes_left_ > 0) {
    MSITD_RETURN_IF_ERROR(LookInSegment(sealed_end, outcome));
  }
  outcome.is_done = segment_ >= sealed_end;
  if (found_.places.empty() && segment_ == segment_before) return outcome;
  found_.unfreed = Joined(std::move(found_.unfreed));
  found_.looked_at_end = std::min(segment_, known_end_);
  MSITD_RETURN_IF_ERROR(index_.Share(found_));
  unfreed_ = std::move(found_.unfreed);
  if (!unfreed_.empty()) MSITD_RETURN_IF_ERROR(Free(outcome));
  return outcome;
}

absl::Status Sharer::Load() {
  MSITD_ASSIGN_OR_RETURN(unfreed_, index_.shared().Unfreed());
  MSITD_ASSIGN_OR_RETURN(segment_, index_.shared().LookedAtEnd());
  offset_ = 0;
  known_end_ = segment_;
  copies_.Clear();
  is_loaded_ = true;
  return absl::OkStatus();
}

absl::Status Sharer::LookInSegment(uint64_t sealed_end, Outcome& outcome) {
  --heads_left_;
  const absl::StatusOr<std::unique_ptr<File>> file =
      env_.OpenForRead(PathOf(segment_), /*direct=*/false);
  if (absl::IsNotFound(file.status())) {
    ++segment_;
    offset_ = 0;
    return absl::OkStatus();
  }
  if (!file.ok()) return file.status();
  known_end_ = segment_ + 1;
  if (segment_ >= indexed_end_) {
    MSITD_RETURN_IF_ERROR(index_.db().Flush());
    indexed_end_ = sealed_end;
  }
  // Frames that a recovery found complete need not be durable yet.
  if (offset_ == 0) MSITD_RETURN_IF_ERROR((*file)->Sync());
  SegmentScanner::ScanRange place;
  place.store_id = index_.store_id();
  place.segment = SegmentId{segment_};
  place.begin_bytes = std::max(offset_, kSegmentHeaderBytes);
  MSITD_ASSIGN_OR_RETURN(place.end_bytes, (*file)->Size());
  SegmentScanner scanner(**file, place);
  for (; heads_left_ > 0 && bytes_left_ > 0; --heads_left_) {
    const absl::StatusOr<ScanStep> step = scanner.Next();
    if (!step.ok()) {
      StorageLogger()->warn(
          "segment {} cannot be read and shares nothing from offset {} on: {}",
          segment_, offset_, Message(step.status()));
    }
    if (!step.ok() || !step->frame.has_value()) {
      ++segment_;
      offset_ = 0;
      return absl::OkStatus();
    }
    MSITD_RETURN_IF_ERROR(LookAtFrame(*step->frame, outcome));
    offset_ = step->frame->end();
  }
  return absl::OkStatus();
}

absl::Status Sharer::LookAtFrame(const FoundFrame& frame, Outcome& outcome) {
  const chunk::Chunk& chunk = frame.chunk;
  const RunId run{chunk.header().run_id};
  if (!chunk.keeps_payload() || !index_.runs().BriefById(run).ok()) {
    return absl::OkStatus();
  }
  for (const chunk::RecordDescriptor& record : chunk.records()) {
    if (record.payload_bytes < kSharedBytesMin) continue;
    const BytePlace place{
        segment_, frame.offset + chunk.head().size() + record.payload_offset};
    if (IsExpired(place, run)) continue;
    // A record without an entry may never have been acknowledged.
    MSITD_ASSIGN_OR_RETURN(const std::optional<IndexValue> entry,
                           FindEntryOf(index_, run, chunk, record));
    if (!entry.has_value() ||
        BytePlace{entry->segment_id, entry->offset} != place) {
      continue;
    }
    MSITD_RETURN_IF_ERROR(
        LookAtPart({run, record.hash, record.payload_bytes}, place, outcome));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::optional<BytePlace>> Sharer::LastPlace(
    const SharedBytes& part) {
  std::optional<BytePlace> place = copies_.Find(part);
  if (!place.has_value()) {
    MSITD_ASSIGN_OR_RETURN(place, index_.shared().Find(part));
  }
  if (place.has_value() && IsExpired(*place, part.run)) place.reset();
  return place;
}

absl::Status Sharer::LookAtPart(const SharedBytes& part, const BytePlace& place,
                                Outcome& outcome) {
  MSITD_ASSIGN_OR_RETURN(const std::optional<BytePlace> last, LastPlace(part));
  if (!last.has_value()) {
    copies_.Put(part, place);
    return absl::OkStatus();
  }
  // This part was processed before.
  if (place <= *last) return absl::OkStatus();
  bytes_left_ -= std::min(bytes_left_, 2 * part.bytes);
  if (!AreEqual(part, *last, place)) {
    // Parts that share the earlier bytes keep sharing them.
    if (++outcome.unequal_count > 1) return absl::OkStatus();
    StorageLogger()->warn(
        "bytes with equal hashes are not shared, as they differ or cannot be "
        "read: segment {} offset {} and segment {} offset {}, {} bytes, and "
        "maybe others",
        last->segment_id, last->offset, place.segment_id, place.offset,
        part.bytes);
    return absl::OkStatus();
  }
  copies_.Put(part, place);
  found_.places.emplace_back(part, place);
  found_.unfreed.push_back({*last, part.bytes});
  return absl::OkStatus();
}

bool Sharer::AreEqual(const SharedBytes& part, const BytePlace& a,
                      const BytePlace& b) {
  const auto first = reader_.ReadUnchecked(SegmentId{a.segment_id}, a.offset,
                                           part.bytes, first_);
  const auto second = reader_.ReadUnchecked(SegmentId{b.segment_id}, b.offset,
                                            part.bytes, second_);
  return first.ok() && second.ok() &&
         std::memcmp(first->data(), second->data(), part.bytes) == 0 &&
         chunk::HashBytes(*second) == part.hash;
}

absl::Status Sharer::Free(Outcome& outcome) {
  for (auto begin = unfreed_.begin(); begin != unfreed_.end();) {
    const auto end =
        std::find_if(begin, unfreed_.end(), [begin](const ByteRange& range) {
          return range.begin.segment_id != begin->begin.segment_id;
        });
    absl::Status status = FreeInSegment({begin, end}, outcome);
    if (absl::IsUnimplemented(status)) {
      has_holes_ = false;
      outcome.is_done = true;
      StorageLogger()->info("equal bytes are not shared: {}", Message(status));
      break;
    }
    MSITD_RETURN_IF_ERROR(status);
    begin = end;
  }
  MSITD_RETURN_IF_ERROR(index_.shared().ForgetUnfreed());
  unfreed_.clear();
  return absl::OkStatus();
}

absl::Status Sharer::FreeInSegment(std::span<const ByteRange> ranges,
                                   Outcome& outcome) {
  const uint64_t segment = ranges.front().begin.segment_id;
  const absl::StatusOr<std::unique_ptr<File>> file =
      env_.OpenForWrite(PathOf(segment), /*direct=*/false);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  if (!file.ok()) return file.status();
  uint64_t freed_bytes = 0;
  for (const ByteRange& range : ranges) {
    const uint64_t begin = AlignUp(range.begin.offset, kChunkAlignment);
    const uint64_t end =
        (range.begin.offset + range.bytes) / kChunkAlignment * kChunkAlignment;
    if (begin >= end) continue;
    MSITD_RETURN_IF_ERROR((*file)->PunchHole(begin, end - begin));
    freed_bytes += end - begin;
  }
  MSITD_RETURN_IF_ERROR((*file)->Sync());
  MSITD_ASSIGN_OR_RETURN(const uint64_t size, (*file)->Size());
  MSITD_ASSIGN_OR_RETURN(const uint64_t allocated, (*file)->AllocatedBytes());
  outcome.shared_bytes += freed_bytes;
  outcome.changed.emplace_back(SegmentId{segment}, std::min(size, allocated));
  return absl::OkStatus();
}

}  // namespace msitd::storage
