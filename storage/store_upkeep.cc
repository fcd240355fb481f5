// SPDX-License-Identifier: Apache-2.0
#include "storage/store_upkeep.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/env/logger.h"

namespace msitd::storage {
namespace {

// A sweep of names reads all entries, so it may use at most this fraction of
// the time.
constexpr int64_t kSweepRestFactor = 20;

// Interval at which the files of segments are checked.
constexpr int64_t kWatchIntervalNs = int64_t{2} * 1'000'000'000;

// Maximum disk space that a step of Tidy may use temporarily.
constexpr uint64_t kTidyRoomBytesMax = uint64_t{512} << 20;

absl::Status Closed() {
  return absl::FailedPreconditionError("the store is closed");
}

}  // namespace

absl::StatusOr<RetentionStep> StoreUpkeep::Retain(
    const RetentionPolicy& policy) {
  const MutexLock lock(mu_);
  room_.KeepBallast();
  // A deleted run may occupy all the space that is needed. If it cannot be
  // emptied, the steps below are all the more necessary.
  bool may_empty = false;
  const absl::Status emptied = FreeGoneRun(may_empty);
  MSITD_RETURN_IF_ERROR(RemoveDrainedSegments());
  if (const absl::Status watched = WatchSegments(); !watched.ok()) {
    StorageLogger()->warn("cannot look for the files of segments: {}",
                          Message(watched));
  }
  std::optional<Retainer::Room> room = RoomFor(policy);
  if (!room.has_value()) return Closed();
  AimAtMargin(policy, *room);
  const AgeClock::Reading time =
      age_clock_->Read(room_.EnsureFree(ChunkLog::kProbeRoomBytes).ok());
  room->now_ns = time.now_ns;
  room->steady_since_ns = time.steady_since_ns;
  room->clock_set_ns = time.set_ns;
  absl::StatusOr<Retainer::Outcome> outcome = retainer_->Step(policy, *room);
  if (!outcome.ok()) return IndexFailed(outcome.status(), "retain");
  figures_.CountExpired(outcome->expired_bytes);
  if (outcome->changed.has_value()) {
    const auto [segment, bytes] = *outcome->changed;
    figures_.SetSegmentBytes(segment, bytes);
  }
  MSITD_RETURN_IF_ERROR(RemoveDrainedSegments());
  RetentionStep step;
  step.expired_bytes = outcome->expired_bytes;
  step.is_done = outcome->is_done;
  if (outcome->wants_seal && log_.SealForRetention()) step.is_done = false;
  const std::optional<GoneTable::Gone> gone = index_->gone().First();
  if (may_empty && gone.has_value() &&
      gone->stage == GoneTable::Stage::kHidden) {
    step.is_done = false;
  }
  step.excess_bytes = ExcessBytes(policy);
  // The remaining bytes cannot be discarded.
  if (step.is_done && !outcome->wants_seal) is_making_room_ = false;
  figures_.SetRetention(step.excess_bytes, is_making_room_);
  // A step that discarded something did not examine all runs.
  if (outcome->is_done) {
    figures_.SetRetentionPause(outcome->holds_back ? age_clock_->PauseReason()
                                                   : "");
  }
  if (!emptied.ok()) return Annotate(emptied, "empty a deleted run");
  return step;
}

absl::StatusOr<ShareStep> StoreUpkeep::Share() {
  const MutexLock lock(mu_);
  const std::optional<StoreLog::Extent> extent = log_.CurrentExtent();
  if (!extent.has_value()) return Closed();
  const absl::StatusOr<Sharer::Outcome> outcome =
      sharer_->Step(extent->sealed_end);
  if (!outcome.ok()) return IndexFailed(outcome.status(), "share equal bytes");
  figures_.CountShared(outcome->shared_bytes, outcome->unequal_count);
  for (const auto& [segment, bytes] : outcome->changed) {
    figures_.SetSegmentBytes(segment, bytes);
  }
  return ShareStep{outcome->shared_bytes, outcome->is_done};
}

absl::StatusOr<VerifyStep> StoreUpkeep::Verify(const VerifyPolicy& policy) {
  const MutexLock lock(mu_);
  const std::optional<StoreLog::Extent> extent = log_.CurrentExtent();
  if (!extent.has_value()) return Closed();
  const bool may_write = room_.EnsureFree(ChunkLog::kProbeRoomBytes).ok();
  absl::StatusOr<VerifyStep> step =
      verifier_->Step(policy, extent->sealed_end, may_write);
  VerifyStats stats = verifier_->Stats();
  stats.remaining_bytes = 0;
  if (verifier_->segment() != 0) {
    stats.remaining_bytes = figures_.SegmentBytesFrom(
        verifier_->segment(), verifier_->offset(), extent->sealed_end);
  }
  figures_.SetVerify(stats);
  return step;
}

absl::StatusOr<bool> StoreUpkeep::Tidy() {
  const MutexLock lock(mu_);
  if (!log_.CurrentExtent().has_value()) return Closed();
  // Compaction uses space before it frees any.
  const uint64_t needed = std::min(index_->db().DiskBytes(), kTidyRoomBytesMax);
  if (!room_.EnsureFree(ChunkLog::kProbeRoomBytes + needed).ok()) return true;
  absl::StatusOr<bool> is_done = attachments_.Tidy();
  if (is_done.value_or(false)) is_done = index_->TidyGoneRuns();
  if (is_done.value_or(false)) is_done = SweepNames();
  if (is_done.ok()) return is_done;
  return IndexFailed(is_done.status(), "tidy the index");
}

absl::StatusOr<bool> StoreUpkeep::SweepNames() {
  const int64_t begin_ns = env_.BootNs();
  if (!sweep_pass_.has_value()) {
    if (!index_->IsNameSweepDue() || begin_ns < next_sweep_boot_ns_) {
      return true;
    }
    const MutexLock lock(log_.mu());
    sweep_pass_ = SweepPass{.gone_count = index_->gone_count()};
    name_sweep_->Begin();
  }
  SweepPass& pass = *sweep_pass_;
  bool is_done = false;
  if (!pass.has_looked) {
    MSITD_ASSIGN_OR_RETURN(pass.has_looked, name_sweep_->Look());
  } else {
    const MutexLock lock(log_.mu());
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

void StoreUpkeep::AimAtMargin(const RetentionPolicy& policy,
                              Retainer::Room& room) {
  is_making_room_ |= room.excess_bytes > 0;
  if (!is_making_room_) return;
  room.excess_bytes = ExcessBytes(policy, /*margin=*/true);
  is_making_room_ = room.excess_bytes > 0;
}

uint64_t StoreUpkeep::ExcessBytes(const RetentionPolicy& policy, bool margin) {
  const uint64_t percent = margin ? policy.disk_margin_percent : 0;
  const uint64_t bytes_max =
      policy.disk_bytes_max - policy.disk_bytes_max / 100 * percent;
  const uint64_t free_min =
      policy.disk_free_min + policy.disk_free_min / 100 * percent;
  uint64_t excess = 0;
  if (policy.disk_bytes_max != 0) {
    // Comparisons have their own limit, so their space does not count against
    // tensors.
    const uint64_t all = index_->db().DiskBytes();
    const uint64_t comparisons = index_->db().DiskBytes(Table::kComparison);
    const uint64_t index_bytes = all - std::min(all, comparisons);
    const uint64_t used = figures_.SegmentBytes() + index_bytes;
    excess = used - std::min(used, bytes_max);
  }
  if (policy.disk_free_min != 0) {
    const uint64_t free = env_.FreeBytes(segment_directory_).value_or(free_min);
    const uint64_t missing = free_min - std::min(free, free_min);
    excess = std::max(excess, missing);
  }
  return excess;
}

absl::Status StoreUpkeep::IndexFailed(const absl::Status& status,
                                      std::string_view what) {
  const MutexLock lock(log_.mu());
  log_.OnIndexFailure();
  return Annotate(status, what);
}

std::optional<Retainer::Room> StoreUpkeep::RoomFor(
    const RetentionPolicy& policy) {
  Retainer::Room room;
  room.excess_bytes = ExcessBytes(policy);
  const std::optional<StoreLog::Extent> extent = log_.CurrentExtent();
  if (!extent.has_value()) return std::nullopt;
  room.sealed_end = extent->sealed_end;
  room.open_end_bytes = extent->open_end_bytes;
  return room;
}

absl::Status StoreUpkeep::WatchSegments() {
  const int64_t now_ns = env_.BootNs();
  if (now_ns < next_watch_boot_ns_) return absl::OkStatus();
  next_watch_boot_ns_ = now_ns + kWatchIntervalNs;
  MSITD_RETURN_IF_ERROR(ResumeReplay());
  MSITD_ASSIGN_OR_RETURN(const SegmentWatch::Changes changes,
                         segment_watch_->LookAgain(figures_.Segments()));
  for (const SegmentId segment : changes.vanished) {
    StorageLogger()->error("{} has vanished: tensors in it cannot be read",
                           log_.PathOf(segment));
    reader_.Forget(segment);
    const MutexLock lock(log_.mu());
    // Data written to a file without a name is lost at the end of the process.
    if (log_.IsCurrent(segment)) log_.EndSegment();
  }
  if (!changes.vanished.empty()) {
    // Otherwise the next start would have to wait for frames that the index
    // has in memory.
    const MutexLock lock(log_.mu());
    MSITD_RETURN_IF_ERROR(index_->db().Flush());
    log_.MayRemoveSegments();
  }
  for (const SegmentFile& file : changes.returned) {
    StorageLogger()->info("{} is back", file.path);
  }
  const MutexLock append_lock(log_.mu());
  PublishMissing();
  for (const SegmentId segment : changes.vanished) {
    figures_.RemoveSegment(segment);
  }
  for (const SegmentFile& file : changes.returned) {
    figures_.SetSegmentBytes(file.id, file.disk_bytes);
  }
  return absl::OkStatus();
}

void StoreUpkeep::TryEmptyGoneRuns() {
  if (!mu_.TryLock()) return;
  absl::StatusOr<bool> is_emptied = false;
  if (log_.mu().TryLock()) {
    do {
      is_emptied = EmptyGoneRun();
    } while (is_emptied.value_or(false));
    const bool may_remove = has_dead_segments_ && log_.MayRemoveSegments();
    log_.mu().Unlock();
    if (may_remove) RemoveDeadSegments();
    room_.KeepBallast();
  }
  mu_.Unlock();
  if (!is_emptied.ok()) {
    StorageLogger()->warn("the room of a deleted run stays for now: {}",
                          Message(is_emptied.status()));
  }
}

absl::StatusOr<bool> StoreUpkeep::EmptyGoneRun() {
  // Segments that only this run seems to use may have frames of others.
  if (!log_.awaited().empty()) return false;
  const std::optional<GoneTable::Gone> gone = index_->gone().First();
  if (!gone.has_value() || gone->stage != GoneTable::Stage::kHidden) {
    return false;
  }
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentId> dead,
                         index_->EmptyRun(gone->run));
  has_dead_segments_ |= !dead.empty();
  for (const SegmentId segment : dead) {
    if (log_.IsCurrent(segment)) log_.EndSegment();
  }
  return true;
}

absl::Status StoreUpkeep::FreeGoneRun(bool& may_empty) {
  absl::Status emptied;
  bool may_remove = false;
  {
    const MutexLock lock(log_.mu());
    emptied = EmptyGoneRun().status();
    if (!emptied.ok()) log_.OnIndexFailure();
    may_empty = log_.awaited().empty();
    may_remove = has_dead_segments_ && log_.MayRemoveSegments();
  }
  if (may_remove) RemoveDeadSegments();
  return emptied;
}

void StoreUpkeep::RemoveDeadSegments() {
  if (!has_dead_segments_) return;
  if (const absl::Status status = TryRemoveDeadSegments(); !status.ok()) {
    StorageLogger()->warn("segments of deleted runs stay for now: {}",
                          Message(status));
  }
}

absl::Status StoreUpkeep::TryRemoveDeadSegments() {
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentId> dead,
                         index_->segments().Dead());
  if (dead.empty()) {
    has_dead_segments_ = false;
    return absl::OkStatus();
  }
  // Otherwise a crash could move the log position back to before a segment
  // whose file was removed, and the number of that segment would be reused.
  MSITD_RETURN_IF_ERROR(index_->db().Flush());
  for (const SegmentId segment : dead) {
    MSITD_RETURN_IF_ERROR(RemoveSegment(segment));
    MSITD_RETURN_IF_ERROR(index_->segments().ForgetDead(segment));
  }
  has_dead_segments_ = false;
  return absl::OkStatus();
}

absl::Status StoreUpkeep::RemoveSegment(SegmentId segment) {
  reader_.Forget(segment);
  const absl::Status status = env_.Remove(log_.PathOf(segment));
  if (!status.ok() && !absl::IsNotFound(status)) return status;
  figures_.RemoveSegment(segment);
  return absl::OkStatus();
}

absl::Status StoreUpkeep::RemoveDrainedSegments() {
  const std::vector<uint64_t> drained(retainer_->drained().begin(),
                                      retainer_->drained().end());
  if (drained.empty()) return absl::OkStatus();
  {
    const MutexLock lock(log_.mu());
    if (!log_.MayRemoveSegments()) return absl::OkStatus();
  }
  for (const uint64_t number : drained) {
    MSITD_RETURN_IF_ERROR(RemoveSegment(SegmentId{number}));
    retainer_->Forget(number);
  }
  return absl::OkStatus();
}

StoreStats StoreUpkeep::Stats() {
  const absl::StatusOr<uint64_t> free = env_.FreeBytes(segment_directory_);
  const size_t run_count = index_->runs().size();
  const RunTable::Pinned pinned = index_->runs().CountPinned();
  const uint64_t index_bytes = index_->db().DiskBytes();
  const uint64_t comparison_bytes = index_->db().DiskBytes(Table::kComparison);
  const CompactionStats compaction = index_->db().Compactions();
  StoreStats stats = figures_.Read();
  stats.pinned_run_count = pinned.run_count;
  stats.pinned_bytes = pinned.kept_bytes;
  stats.compaction = compaction;
  stats.run_count = run_count;
  stats.index_bytes = index_bytes;
  stats.comparison_disk_bytes = comparison_bytes;
  stats.disk_free_bytes = free.value_or(0);
  return stats;
}

}  // namespace msitd::storage
