// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/log_replay.h"
#include "storage/store_log.h"

// How the log of a store is read again, by a start, after the index was opened
// again, and when files that were missing are back.
namespace msitd::storage {
namespace {

// Number of consecutive failed attempts to resume the index after which it is
// reopened.
constexpr int kFailedResumesMax = 3;

}  // namespace

bool StoreLog::HasLostIndex() const {
  return !is_closed_ && failed_resume_count_ >= kFailedResumesMax;
}

void StoreLog::OnIndexReopened() {
  index_failed_ = false;
  failed_resume_count_ = 0;
}

absl::StatusOr<StoreLog::Recovered> StoreLog::BringUp() {
  MSITD_ASSIGN_OR_RETURN(std::vector<SegmentFile> files,
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
    figures_.SetSegmentBytes(file.id, file.disk_bytes);
  }
  MSITD_RETURN_IF_ERROR(replay.Finish());
  const LogPosition& reached = replay.reached();
  next_frame_sequence_ =
      std::max(next_frame_sequence_, reached.next_frame_sequence);
  previous_ = {reached.segment_id, reached.offset};
  reached_ = reached;
  figures_.CountReplay(replay.counts());
  std::map<uint64_t, uint64_t> ends = replay.known_ends();
  uint64_t& last_end = ends[reached.segment_id];
  last_end = std::max(last_end, reached.offset);
  PublishRefusal();
  const bool may_remove_segments = MayRemoveSegments();
  // Frees space even if the index has none.
  if (awaited_.empty()) TidySegments(files, replay);
  return Recovered{std::move(files), std::move(ends), may_remove_segments};
}

absl::StatusOr<bool> StoreLog::HasRestoredFiles() {
  if (is_closed_ || awaited_.empty()) return false;
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
  if (is_changing) return false;
  LogReplay replay(index_.get(), env_);
  MSITD_RETURN_IF_ERROR(replay.Begin(files));
  return replay.Awaited(files, newest_) != awaited_;
}

absl::Status StoreLog::CheckIsWhole() const {
  const std::string refusal = figures_.Refusal();
  if (refusal.empty()) return absl::OkStatus();
  return ToAppendStatus(absl::UnavailableError(refusal));
}

void StoreLog::PublishRefusal() {
  index_->runs().AcceptUnread(awaited_.size());
  std::string refusal;
  if (!awaited_.empty()) {
    refusal = fmt::format(
        "{} is missing or cut short, and the index does not have its tensors "
        "yet. Mount the disk, or move the file back to {}: it is read without "
        "a restart. If it is lost for good, stop the daemon and run: "
        "msitd-inspect rebuild --data-dir {}",
        SegmentFileName(SegmentId{awaited_.front()}), segment_directory_,
        options_.directory);
  }
  if (!figures_.SetRefusal(refusal)) return;
  if (refusal.empty()) {
    StorageLogger()->info("all segments are there, chunks are accepted");
  } else {
    StorageLogger()->error("chunks are refused: {}", refusal);
  }
}

bool StoreLog::MayRemoveSegments() {
  if (!awaited_.empty()) return false;
  const bool is_in_use = IsCurrent(SegmentId{newest_.segment_id});
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

void StoreLog::TidySegments(const std::vector<SegmentFile>& files,
                            const LogReplay& replay) {
  for (const SegmentFile& file : files) {
    const uint64_t number = ToNumber(file.id);
    if (replay.IsVoid(file)) {
      // The next start would wait for it.
      if (number == newest_.segment_id && !newest_.is_indexed) continue;
      if (!env_.Remove(file.path).ok()) continue;
      figures_.RemoveSegment(file.id);
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
    const uint64_t end = replay.reached().offset;
    figures_.SetSegmentBytes(file.id, std::min(end, allocated.value_or(end)));
  }
}

}  // namespace msitd::storage
