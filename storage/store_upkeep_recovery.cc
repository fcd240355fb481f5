// SPDX-License-Identifier: Apache-2.0
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/segment/segment_format.h"
#include "storage/store_files.h"
#include "storage/store_upkeep.h"

// How a store recovers: at its start, after its index was lost, and when
// missing files are back.
namespace msitd::storage {

StoreUpkeep::StoreUpkeep(const StoreOptions& options, Env& env,
                         const Parts& parts)
    : options_(options),
      env_(env),
      segment_directory_(SegmentDirectory(options.directory)),
      store_id_(parts.index.get().store_id()),
      ballast_(parts.ballast),
      index_(parts.index),
      reader_(parts.reader),
      room_(parts.room),
      attachments_(parts.attachments),
      log_(parts.log),
      figures_(parts.figures) {
  const MutexLock lock(mu_);
  MakeObjects();
  age_clock_.emplace(index_.get(), env_);
}

absl::Status StoreUpkeep::Recover() {
  const MutexLock upkeep_lock(mu_);
  const MutexLock lock(log_.mu());
  age_clock_->Begin();
  return BringUp();
}

absl::Status StoreUpkeep::ReopenLostIndex() {
  {
    const MutexLock lock(log_.mu());
    if (!log_.HasLostIndex()) return absl::OkStatus();
  }
  const MutexLock upkeep_lock(mu_);
  const MutexLock lock(log_.mu());
  if (!log_.HasLostIndex()) return absl::OkStatus();
  log_.EndSegment();
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<ChunkIndex>> {
    // The replay would move the position past the frames that reveal what the
    // index has lost.
    MSITD_RETURN_IF_ERROR(CheckIndex(options_, env_));
    return OpenIndex(options_, env_, ballast_, /*creates=*/false);
  };
  const auto finish = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_, log_.mu()) {
    // Must be first, before anything can fail, because the index that the
    // previous objects used no longer exists.
    MakeObjects();
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
  log_.OnIndexReopened();
  return absl::OkStatus();
}

void StoreUpkeep::MakeObjects() {
  retainer_.emplace(index_.get(), env_, segment_directory_);
  sharer_.emplace(index_.get(), env_, reader_, segment_directory_);
  verifier_.emplace(index_.get(), env_, segment_directory_, options_.direct_io);
  segment_watch_.emplace(index_.get(), env_, segment_directory_);
  name_sweep_.emplace(index_.get().db(), index_.get().names());
  sweep_pass_.reset();
  has_dead_segments_ = true;
}

absl::Status StoreUpkeep::BringUp() {
  MSITD_ASSIGN_OR_RETURN(const StoreLog::Recovered recovered, log_.BringUp());
  // A store that cannot determine which segments are missing is otherwise
  // functional.
  if (const absl::Status begun =
          segment_watch_->Begin(recovered.files, recovered.ends);
      !begun.ok()) {
    StorageLogger()->error("cannot tell which segments are missing: {}",
                           Message(begun));
  }
  PublishMissing();
  if (recovered.may_remove_segments) RemoveDeadSegments();
  if (const absl::Status room = room_.EnsureFree(0); !room.ok()) {
    StorageLogger()->warn("chunks are refused for now: {}", Message(room));
  }
  return absl::OkStatus();
}

absl::Status StoreUpkeep::ResumeReplay() {
  const MutexLock lock(log_.mu());
  MSITD_ASSIGN_OR_RETURN(const bool has_files, log_.HasRestoredFiles());
  if (!has_files) return absl::OkStatus();
  StorageLogger()->info("files of segments are back: the log is read on");
  MakeObjects();
  return BringUp();
}

void StoreUpkeep::PublishMissing() {
  MissingSegments missing = segment_watch_->Missing();
  // If the index has some frames of a segment, the segment is already counted.
  for (const uint64_t number : log_.awaited()) {
    if (segment_watch_->IsMissing(number)) continue;
    ++missing.count;
    if (missing.first.size() >= MissingSegments::kSegmentsShown) continue;
    MissingSegment& one = missing.first.emplace_back();
    one.segment = SegmentFileName(SegmentId{number});
  }
  figures_.SetMissing(std::move(missing));
}

}  // namespace msitd::storage
