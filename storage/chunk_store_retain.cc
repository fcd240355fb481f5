// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/chunk_store_impl.h"
#include "storage/logger.h"

namespace msitd::storage {

absl::StatusOr<RetentionStep> ChunkStoreImpl::Retain(
    const RetentionPolicy& policy) {
  const MutexLock lock(retain_mu_);
  KeepBallast();
  // What was left behind may be all the room that is needed.
  {
    const MutexLock append_lock(append_mu_);
    const absl::StatusOr<bool> is_emptied = EmptyGoneRun();
    index_failed_ |= !is_emptied.ok();
    MSITD_RETURN_IF_ERROR(is_emptied.status());
  }
  RemoveDeadSegments();
  MSITD_RETURN_IF_ERROR(RemoveDrainedSegments());
  Retainer::Room room = RoomFor(policy);
  if (room.sealed_end == 0) {
    return absl::FailedPreconditionError("the store is closed");
  }
  const AgeClock::Reading time = age_clock_->Read();
  room.now_ns = time.now_ns;
  room.steady_since_ns = time.steady_since_ns;
  room.clock_set_ns = time.set_ns;
  absl::StatusOr<Retainer::Outcome> outcome = retainer_->Step(policy, room);
  if (!outcome.ok()) {
    const MutexLock append_lock(append_mu_);
    index_failed_ = true;
    return Annotate(outcome.status(), "retain");
  }
  {
    const MutexLock stats_lock(stats_mu_);
    stats_.expired_bytes += outcome->expired_bytes;
    if (outcome->changed.has_value()) {
      const auto [segment, bytes] = *outcome->changed;
      segment_sizes_[ToNumber(segment)] = bytes;
    }
  }
  MSITD_RETURN_IF_ERROR(RemoveDrainedSegments());
  RetentionStep step;
  step.expired_bytes = outcome->expired_bytes;
  step.is_done = outcome->is_done;
  if (outcome->wants_seal && SealForRetention()) step.is_done = false;
  if (index_->gone().First().has_value()) step.is_done = false;
  step.excess_bytes = ExcessBytes(policy);
  const MutexLock stats_lock(stats_mu_);
  stats_.excess_bytes = step.excess_bytes;
  // A step that gave something up did not look at all runs.
  if (outcome->is_done) {
    stats_.age_pause = outcome->holds_back ? age_clock_->Parting() : "";
  }
  return step;
}

absl::StatusOr<ShareStep> ChunkStoreImpl::Share() {
  const MutexLock lock(retain_mu_);
  const uint64_t sealed_end = RoomFor(RetentionPolicy()).sealed_end;
  if (sealed_end == 0) {
    return absl::FailedPreconditionError("the store is closed");
  }
  const absl::StatusOr<Sharer::Outcome> outcome = sharer_->Step(sealed_end);
  if (!outcome.ok()) {
    const MutexLock append_lock(append_mu_);
    index_failed_ = true;
    return Annotate(outcome.status(), "share equal bytes");
  }
  const MutexLock stats_lock(stats_mu_);
  stats_.shared_bytes += outcome->shared_bytes;
  stats_.unequal_count += outcome->unequal_count;
  for (const auto& [segment, bytes] : outcome->changed) {
    segment_sizes_[ToNumber(segment)] = bytes;
  }
  return ShareStep{outcome->shared_bytes, outcome->is_done};
}

uint64_t ChunkStoreImpl::ExcessBytes(const RetentionPolicy& policy) {
  uint64_t excess = 0;
  if (policy.disk_bytes_max != 0) {
    uint64_t used = 0;
    const MutexLock lock(stats_mu_);
    for (const auto& [segment, bytes] : segment_sizes_) used += bytes;
    excess = used - std::min(used, policy.disk_bytes_max);
  }
  if (policy.disk_free_min != 0) {
    const uint64_t free =
        env_.FreeBytes(segment_directory_).value_or(policy.disk_free_min);
    const uint64_t missing =
        policy.disk_free_min - std::min(free, policy.disk_free_min);
    excess = std::max(excess, missing);
  }
  return excess;
}

Retainer::Room ChunkStoreImpl::RoomFor(const RetentionPolicy& policy) {
  Retainer::Room room;
  room.excess_bytes = ExcessBytes(policy);
  const MutexLock lock(append_mu_);
  if (is_closed_) return room;
  if (writer_ == nullptr) {
    room.sealed_end = next_segment_id_;
  } else {
    room.sealed_end = ToNumber(writer_->id());
    room.open_end_bytes = acknowledged_bytes_;
  }
  return room;
}

bool ChunkStoreImpl::SealForRetention() {
  const MutexLock lock(append_mu_);
  if (writer_ == nullptr || acknowledged_bytes_ <= kSegmentHeaderBytes) {
    return false;
  }
  if (acknowledged_bytes_ < kSealBytesMin &&
      env_.BootNs() - segment_begin_boot_ns_ < kSealAgeMinNs) {
    return false;
  }
  EndSegment();
  return true;
}

absl::Status ChunkStoreImpl::RemoveDrainedSegments() {
  const std::vector<uint64_t> drained(retainer_->drained().begin(),
                                      retainer_->drained().end());
  for (const uint64_t number : drained) {
    const SegmentId segment{number};
    reader_.Forget(segment);
    const absl::Status status = env_.Remove(PathOf(segment));
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    retainer_->Forget(number);
    const MutexLock lock(stats_mu_);
    segment_sizes_.erase(number);
  }
  return absl::OkStatus();
}

}  // namespace msitd::storage
