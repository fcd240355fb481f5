// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "protos/status/status.h"
#include "storage/disk_room.h"
#include "storage/env/logger.h"
#include "storage/log_replay.h"
#include "storage/store_impl.h"

namespace msitd::storage {
namespace {

// Number of consecutive failed attempts to resume the index after which it is
// reopened.
constexpr int kFailedResumesMax = 3;

}  // namespace

absl::Status StoreImpl::Recover() {
  const MutexLock retain_lock(retain_mu_);
  const MutexLock lock(append_mu_);
  store_id_ = index_->store_id();
  age_clock_->Begin();
  return BringUp();
}

absl::Status StoreImpl::ReopenLostIndex() {
  {
    const MutexLock lock(append_mu_);
    if (failed_resume_count_ < kFailedResumesMax) return absl::OkStatus();
  }
  const MutexLock retain_lock(retain_mu_);
  const MutexLock lock(append_mu_);
  if (is_closed_ || failed_resume_count_ < kFailedResumesMax) {
    return absl::OkStatus();
  }
  EndSegment();
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<ChunkIndex>> {
    // The replay would move the position past the frames that reveal what the
    // index has lost.
    MSITD_RETURN_IF_ERROR(CheckIndex(options_, env_));
    return OpenIndex(options_, env_, *ballast_, /*creates=*/false);
  };
  const auto finish = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_,
                                                          append_mu_) {
    // Must be first, before anything can fail, because the index that the
    // previous objects used no longer exists.
    MakeUpkeep();
    age_clock_.emplace(index_.get(), env_);
    age_clock_->Begin();
    if (index_->store_id() != store_id_) {
      return absl::DataLossError("the index is of another store now");
    }
    return BringUp();
  };
  const absl::Status status = index_.Reopen(open, finish);
  if (!status.ok()) {
    StorageLogger()->error("the index cannot be opened anew: {}",
                           Message(status));
    return Annotate(status, "open index anew");
  }
  StorageLogger()->info("the index was opened anew");
  index_failed_ = false;
  failed_resume_count_ = 0;
  return absl::OkStatus();
}

void StoreImpl::MakeUpkeep() {
  retainer_.emplace(index_.get(), env_, segment_directory_);
  sharer_.emplace(index_.get(), env_, reader_, segment_directory_);
  verifier_.emplace(index_.get(), env_, segment_directory_, options_.direct_io);
  segment_watch_.emplace(index_.get(), env_, segment_directory_);
  name_sweep_.emplace(index_.get().db(), index_.get().names());
  sweep_pass_.reset();
  has_dead_segments_ = true;
}

absl::Status StoreImpl::BringUp() {
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentFile> files,
                         ListSegments(env_, segment_directory_));
  // Files that are found are used from here on, and the process that created
  // them may have ended before their names were durable.
  MSITD_RETURN_IF_ERROR(env_.SyncDirectory(segment_directory_));
  LogReplay replay(index_.get(), env_);
  MSITD_RETURN_IF_ERROR(replay.Begin(files));
  const LogPosition& start = replay.start();
  MSITD_ASSIGN_OR_RETURN(newest_, index_->Newest());
  newest_before_ = newest_;
  awaited_ = replay.Awaited(files, newest_);
  const uint64_t end = awaited_.empty() ? UINT64_MAX : awaited_.front();
  next_segment_id_ = std::max(
      {next_segment_id_, start.segment_id + 1, newest_.segment_id + 1});
  previous_ = {start.segment_id, start.offset};
  for (const SegmentFile& file : files) {
    next_segment_id_ = std::max(next_segment_id_, ToNumber(file.id) + 1);
    if (ToNumber(file.id) >= start.segment_id && ToNumber(file.id) < end) {
      if (absl::Status status = replay.Add(file); !status.ok()) {
        return Annotate(status, "recover " + file.path);
      }
    }
    const MutexLock stats_lock(stats_mu_);
    segment_sizes_[ToNumber(file.id)] = file.disk_bytes;
  }
  MSITD_RETURN_IF_ERROR(replay.Finish());
  return FinishReplay(files, replay);
}

absl::Status StoreImpl::FinishReplay(const std::vector<SegmentFile>& files,
                                     const LogReplay& replay) {
  const LogPosition& reached = replay.reached();
  next_frame_sequence_ =
      std::max(next_frame_sequence_, reached.next_frame_sequence);
  previous_ = {reached.segment_id, reached.offset};
  reached_ = reached;
  {
    const MutexLock lock(stats_mu_);
    stats_.recovered_frame_count += replay.counts().recovered;
    stats_.torn_frame_count += replay.counts().torn;
    stats_.corrupt_frame_count += replay.counts().corrupt;
  }
  std::map<uint64_t, uint64_t> ends = replay.known_ends();
  uint64_t& last_end = ends[reached.segment_id];
  last_end = std::max(last_end, reached.offset);
  // A store that cannot determine which segments are missing is otherwise
  // functional.
  if (const absl::Status begun = segment_watch_->Begin(files, ends);
      !begun.ok()) {
    StorageLogger()->error("cannot tell which segments are missing: {}",
                           Message(begun));
  }
  PublishMissing();
  const bool may_remove = MayRemoveSegments();
  // Frees space even if the index has none.
  if (awaited_.empty()) TidySegments(files, replay);
  if (may_remove) RemoveDeadSegments();
  if (const absl::Status room = room_.EnsureFree(0); !room.ok()) {
    StorageLogger()->warn("chunks are refused for now: {}", Message(room));
  }
  return absl::OkStatus();
}

absl::Status StoreImpl::ResumeReplay() {
  const MutexLock lock(append_mu_);
  if (is_closed_ || awaited_.empty()) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(
      const std::vector<SegmentFile> files,
      ListSegments(env_, segment_directory_, /*may_vanish=*/true));
  std::map<uint64_t, uint64_t> sizes;
  for (const SegmentFile& file : files) {
    if (std::binary_search(awaited_.begin(), awaited_.end(),
                           ToNumber(file.id))) {
      sizes[ToNumber(file.id)] = file.size_bytes;
    }
  }
  const bool is_changing = sizes != returned_sizes_;
  returned_sizes_ = std::move(sizes);
  if (is_changing) return absl::OkStatus();
  LogReplay replay(index_.get(), env_);
  MSITD_RETURN_IF_ERROR(replay.Begin(files));
  if (replay.Awaited(files, newest_) == awaited_) return absl::OkStatus();
  StorageLogger()->info("files of segments are back: the log is read on");
  MakeUpkeep();
  return BringUp();
}

absl::Status StoreImpl::CheckLogIsWhole() {
  const MutexLock lock(stats_mu_);
  if (stats_.refusal.empty()) return absl::OkStatus();
  return ToAppendStatus(absl::UnavailableError(stats_.refusal));
}

void StoreImpl::PublishMissing() {
  MissingSegments missing = segment_watch_->Missing();
  index_->runs().AcceptUnread(awaited_.size());
  std::string refusal;
  if (!awaited_.empty()) {
    // If the index has some frames of a segment, the segment is already
    // counted.
    for (const uint64_t number : awaited_) {
      if (segment_watch_->IsMissing(number)) continue;
      ++missing.count;
      if (missing.first.size() >= MissingSegments::kSegmentsShown) continue;
      MissingSegment& one = missing.first.emplace_back();
      one.segment = SegmentFileName(SegmentId{number});
    }
    refusal = fmt::format(
        "{} is missing or cut short, and the index does not have its tensors "
        "yet. Mount the disk, or move the file back to {}: it is read without "
        "a restart. If it is lost for good, stop the daemon and run: "
        "msitd-inspect rebuild --data-dir {}",
        SegmentFileName(SegmentId{awaited_.front()}), segment_directory_,
        options_.directory);
  }
  const MutexLock lock(stats_mu_);
  if (refusal != stats_.refusal) {
    if (refusal.empty()) {
      StorageLogger()->info("all segments are there, chunks are accepted");
    } else {
      StorageLogger()->error("chunks are refused: {}", refusal);
    }
  }
  stats_.refusal = std::move(refusal);
  stats_.missing = std::move(missing);
}

bool StoreImpl::MayRemoveSegments() {
  if (!awaited_.empty()) return false;
  const bool is_in_use =
      writer_ != nullptr && ToNumber(writer_->id()) == newest_.segment_id;
  if (newest_.is_indexed || is_in_use) return true;
  absl::Status status = index_->db().Flush();
  if (status.ok()) {
    const NewestSegment newest{newest_.segment_id, true};
    status = index_->SetNewest(newest);
    if (status.ok()) newest_ = newest;
  }
  if (!status.ok()) {
    StorageLogger()->warn("the index cannot be made durable: {}",
                          Message(status));
  }
  return status.ok();
}

void StoreImpl::TidySegments(const std::vector<SegmentFile>& files,
                             const LogReplay& replay) {
  for (const SegmentFile& file : files) {
    const uint64_t number = ToNumber(file.id);
    if (replay.IsVoid(file)) {
      // The next start would wait for it.
      if (number == newest_.segment_id && !newest_.is_indexed) continue;
      if (!env_.Remove(file.path).ok()) continue;
      const MutexLock lock(stats_mu_);
      segment_sizes_.erase(number);
      continue;
    }
    const bool is_last = number == replay.reached().segment_id &&
                         !replay.known_ends().contains(number);
    if (!is_last || file.IsForeignTo(index_->store_id()) ||
        replay.reached().offset > file.size_bytes) {
      continue;
    }
    // Also frees preallocated space. If the tail remains, the header of the
    // next segment distinguishes it from the log.
    const auto writer = env_.OpenForWrite(file.path, /*direct=*/false);
    if (!writer.ok()) continue;
    (*writer)->Truncate(replay.reached().offset).IgnoreError();
    // Bytes that were discarded earlier are holes.
    const absl::StatusOr<uint64_t> allocated = (*writer)->AllocatedBytes();
    const MutexLock lock(stats_mu_);
    segment_sizes_[number] = std::min(
        replay.reached().offset, allocated.value_or(replay.reached().offset));
  }
}

}  // namespace msitd::storage
