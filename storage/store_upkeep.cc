// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/store_impl.h"

namespace msitd::storage {
namespace {

// A sweep of names reads all entries, so it may use at most this fraction of
// the time.
constexpr int64_t kSweepRestFactor = 20;

// Interval at which the files of segments are checked.
constexpr int64_t kWatchIntervalNs = int64_t{2} * 1'000'000'000;

// Maximum disk space that a step of Tidy may use temporarily.
constexpr uint64_t kTidyRoomBytesMax = uint64_t{512} << 20;

}  // namespace

absl::StatusOr<RetentionStep> StoreImpl::Retain(const RetentionPolicy& policy) {
  const MutexLock lock(retain_mu_);
  room_.KeepBallast();
  // A deleted run may occupy all the space that is needed. If it cannot be
  // emptied, the steps below are all the more necessary.
  absl::Status emptied;
  bool may_remove = false;
  bool may_empty = false;
  {
    const MutexLock append_lock(append_mu_);
    emptied = EmptyGoneRun().status();
    index_failed_ |= !emptied.ok();
    may_empty = awaited_.empty();
    may_remove = has_dead_segments_ && MayRemoveSegments();
  }
  if (may_remove) RemoveDeadSegments();
  MSITD_RETURN_IF_ERROR(RemoveDrainedSegments());
  if (const absl::Status watched = WatchSegments(); !watched.ok()) {
    StorageLogger()->warn("cannot look for the files of segments: {}",
                          Message(watched));
  }
  Retainer::Room room = RoomFor(policy);
  if (room.sealed_end == 0) {
    return absl::FailedPreconditionError("the store is closed");
  }
  AimAtMargin(policy, room);
  const AgeClock::Reading time =
      age_clock_->Read(room_.EnsureFree(kProbeRoomBytes).ok());
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
  const std::optional<GoneTable::Gone> gone = index_->gone().First();
  if (may_empty && gone.has_value() &&
      gone->stage == GoneTable::Stage::kHidden) {
    step.is_done = false;
  }
  step.excess_bytes = ExcessBytes(policy);
  // The remaining bytes cannot be discarded.
  if (step.is_done && !outcome->wants_seal) is_making_room_ = false;
  const MutexLock stats_lock(stats_mu_);
  stats_.excess_bytes = step.excess_bytes;
  stats_.is_making_room = is_making_room_;
  // A step that discarded something did not examine all runs.
  if (outcome->is_done) {
    stats_.retention_pause =
        outcome->holds_back ? age_clock_->PauseReason() : "";
  }
  if (!emptied.ok()) return Annotate(emptied, "empty a deleted run");
  return step;
}

absl::StatusOr<ShareStep> StoreImpl::Share() {
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

absl::StatusOr<VerifyStep> StoreImpl::Verify(const VerifyPolicy& policy) {
  const MutexLock lock(retain_mu_);
  const uint64_t sealed_end = RoomFor(RetentionPolicy()).sealed_end;
  if (sealed_end == 0) {
    return absl::FailedPreconditionError("the store is closed");
  }
  const bool may_write = room_.EnsureFree(kProbeRoomBytes).ok();
  absl::StatusOr<VerifyStep> step =
      verifier_->Step(policy, sealed_end, may_write);
  const MutexLock stats_lock(stats_mu_);
  stats_.verify = verifier_->Stats();
  uint64_t remaining = 0;
  if (verifier_->segment() != 0) {
    for (auto it = segment_sizes_.lower_bound(verifier_->segment());
         it != segment_sizes_.end() && it->first < sealed_end; ++it) {
      const bool is_begun = it->first == verifier_->segment();
      remaining +=
          it->second - std::min(it->second, is_begun ? verifier_->offset() : 0);
    }
  }
  stats_.verify.remaining_bytes = remaining;
  return step;
}

absl::StatusOr<bool> StoreImpl::Tidy() {
  const MutexLock lock(retain_mu_);
  if (RoomFor(RetentionPolicy()).sealed_end == 0) {
    return absl::FailedPreconditionError("the store is closed");
  }
  // Compaction uses space before it frees any.
  const uint64_t needed = std::min(index_->db().DiskBytes(), kTidyRoomBytesMax);
  if (!room_.EnsureFree(kProbeRoomBytes + needed).ok()) return true;
  absl::StatusOr<bool> is_done = attachments_.Tidy();
  if (is_done.value_or(false)) is_done = index_->TidyGoneRuns();
  if (is_done.value_or(false)) is_done = SweepNames();
  if (is_done.ok()) return is_done;
  const MutexLock append_lock(append_mu_);
  index_failed_ = true;
  return Annotate(is_done.status(), "tidy the index");
}

absl::StatusOr<bool> StoreImpl::SweepNames() {
  const int64_t begin_ns = env_.BootNs();
  if (!sweep_pass_.has_value()) {
    if (!index_->IsNameSweepDue() || begin_ns < next_sweep_boot_ns_) {
      return true;
    }
    const MutexLock lock(append_mu_);
    sweep_pass_ = SweepPass{.gone_count = index_->gone_count()};
    name_sweep_->Begin();
  }
  SweepPass& pass = *sweep_pass_;
  bool is_done = false;
  if (!pass.has_looked) {
    MSITD_ASSIGN_OR_RETURN(pass.has_looked, name_sweep_->Look());
  } else {
    const MutexLock lock(append_mu_);
    MSITD_ASSIGN_OR_RETURN(is_done, name_sweep_->Remove());
  }
  const int64_t end_ns = env_.BootNs();
  pass.work_ns += end_ns - begin_ns;
  if (!is_done) return false;
  next_sweep_boot_ns_ = end_ns + kSweepRestFactor * pass.work_ns;
  const uint64_t gone_count = pass.gone_count;
  sweep_pass_.reset();
  if (!name_sweep_->is_whole()) return true;
  MSITD_RETURN_IF_ERROR(index_->ForgetNameSweep(gone_count));
  return true;
}

void StoreImpl::AimAtMargin(const RetentionPolicy& policy,
                            Retainer::Room& room) {
  is_making_room_ |= room.excess_bytes > 0;
  if (!is_making_room_) return;
  room.excess_bytes = ExcessBytes(policy, /*margin=*/true);
  is_making_room_ = room.excess_bytes > 0;
}

uint64_t StoreImpl::ExcessBytes(const RetentionPolicy& policy, bool margin) {
  const uint64_t percent = margin ? policy.disk_margin_percent : 0;
  const uint64_t bytes_max =
      policy.disk_bytes_max - policy.disk_bytes_max / 100 * percent;
  const uint64_t free_min =
      policy.disk_free_min + policy.disk_free_min / 100 * percent;
  uint64_t excess = 0;
  if (policy.disk_bytes_max != 0) {
    uint64_t used = 0;
    // Comparisons have their own limit, so their space does not count against
    // tensors.
    const uint64_t all = index_->db().DiskBytes();
    const uint64_t comparisons = index_->db().DiskBytes(Table::kComparison);
    const uint64_t index_bytes = all - std::min(all, comparisons);
    const MutexLock lock(stats_mu_);
    for (const auto& [segment, bytes] : segment_sizes_) used += bytes;
    used += index_bytes;
    excess = used - std::min(used, bytes_max);
  }
  if (policy.disk_free_min != 0) {
    const uint64_t free = env_.FreeBytes(segment_directory_).value_or(free_min);
    const uint64_t missing = free_min - std::min(free, free_min);
    excess = std::max(excess, missing);
  }
  return excess;
}

Retainer::Room StoreImpl::RoomFor(const RetentionPolicy& policy) {
  Retainer::Room room;
  room.excess_bytes = ExcessBytes(policy);
  const MutexLock lock(append_mu_);
  if (is_closed_) return room;
  if (!awaited_.empty()) {
    // Later segments have frames that the index lacks.
    room.sealed_end = std::max<uint64_t>(reached_.segment_id, 1);
    room.open_end_bytes = reached_.offset;
  } else if (writer_ == nullptr) {
    room.sealed_end = next_segment_id_;
  } else {
    room.sealed_end = ToNumber(writer_->id());
    room.open_end_bytes = acknowledged_bytes_;
  }
  return room;
}

bool StoreImpl::SealForRetention() {
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

absl::Status StoreImpl::WatchSegments() {
  const int64_t now_ns = env_.BootNs();
  if (now_ns < next_watch_boot_ns_) return absl::OkStatus();
  next_watch_boot_ns_ = now_ns + kWatchIntervalNs;
  MSITD_RETURN_IF_ERROR(ResumeReplay());
  std::vector<uint64_t> present;
  {
    const MutexLock lock(stats_mu_);
    for (const auto& [number, bytes] : segment_sizes_) {
      present.push_back(number);
    }
  }
  MSITD_ASSIGN_OR_RETURN(const SegmentWatch::Changes changes,
                         segment_watch_->LookAgain(present));
  for (const SegmentId segment : changes.vanished) {
    StorageLogger()->error("{} has vanished: tensors in it cannot be read",
                           PathOf(segment));
    reader_.Forget(segment);
    const MutexLock lock(append_mu_);
    // Data written to a file without a name is lost at the end of the process.
    if (writer_ != nullptr && writer_->id() == segment) EndSegment();
  }
  if (!changes.vanished.empty()) {
    // Otherwise the next start would have to wait for frames that the index
    // has in memory.
    const MutexLock lock(append_mu_);
    MSITD_RETURN_IF_ERROR(index_->db().Flush());
    MayRemoveSegments();
  }
  for (const SegmentFile& file : changes.returned) {
    StorageLogger()->info("{} is back", file.path);
  }
  const MutexLock append_lock(append_mu_);
  PublishMissing();
  const MutexLock lock(stats_mu_);
  for (const SegmentId segment : changes.vanished) {
    segment_sizes_.erase(ToNumber(segment));
  }
  for (const SegmentFile& file : changes.returned) {
    segment_sizes_[ToNumber(file.id)] = file.disk_bytes;
  }
  return absl::OkStatus();
}

absl::Status StoreImpl::RemoveDrainedSegments() {
  const std::vector<uint64_t> drained(retainer_->drained().begin(),
                                      retainer_->drained().end());
  if (drained.empty()) return absl::OkStatus();
  {
    const MutexLock lock(append_mu_);
    if (!MayRemoveSegments()) return absl::OkStatus();
  }
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
