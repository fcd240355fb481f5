// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/disk_room.h"
#include "storage/env/ballast.h"
#include "storage/env/env.h"
#include "storage/face/types.h"
#include "storage/face/upkeep.h"
#include "storage/index/index_gate.h"
#include "storage/index/name/name_sweep.h"
#include "storage/indexed_attachments.h"
#include "storage/segment/segment_reader.h"
#include "storage/store.h"
#include "storage/store_figures.h"
#include "storage/store_log.h"
#include "storage/upkeep/age_clock.h"
#include "storage/upkeep/retainer.h"
#include "storage/upkeep/segment_watch.h"
#include "storage/upkeep/sharer.h"
#include "storage/upkeep/verifier.h"

namespace msitd::storage {

// The maintenance of a store: retention, sharing, sweeps, and checks of stored
// data. It also recovers the store, and opens its index again if it was lost.
// It removes segments, but never writes frames.
//
// One step runs at a time, with mu_ held. Steps exclude appends only briefly,
// by acquiring the lock of the log after mu_.
class StoreUpkeep final : public Upkeep {
 public:
  // The parts of the store that upkeep uses. They must outlive it.
  struct Parts {
    Ballast& ballast;
    IndexGate& index;
    SegmentReader& reader;
    DiskRoom& room;
    IndexedAttachments& attachments;
    StoreLog& log;
    StoreFigures& figures;
  };

  StoreUpkeep(const StoreOptions& options, Env& env, const Parts& parts);

  absl::StatusOr<RetentionStep> Retain(const RetentionPolicy& policy) override;
  absl::StatusOr<ShareStep> Share() override;
  absl::StatusOr<bool> Tidy() override;
  absl::StatusOr<VerifyStep> Verify(const VerifyPolicy& policy) override;
  StoreStats Stats() override;

  // Indexes all frames up to the end of the log. Must be called once, before
  // everything else.
  absl::Status Recover() ABSL_LOCKS_EXCLUDED(mu_, log_.mu());

  // Opens the index again if the log has lost it, and indexes all frames up to
  // the end of the log.
  absl::Status ReopenLostIndex() ABSL_LOCKS_EXCLUDED(mu_, log_.mu());

  // Removes the data of deleted runs if no other step and no append is in
  // progress; otherwise Retain does this later.
  void TryEmptyGoneRuns() ABSL_LOCKS_EXCLUDED(mu_, log_.mu());

 private:
  // The current pass over the names.
  struct SweepPass {
    bool has_looked = false;
    uint64_t gone_count = 0;
    int64_t work_ns = 0;
  };

  // Indexes the frames that the index lacks, and finds the segments that are
  // missing.
  absl::Status BringUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_, log_.mu());
  // Creates the objects that work on the current index.
  void MakeObjects() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Publishes the missing segments.
  void PublishMissing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_, log_.mu());
  // If files that the log waits for have been restored, reads their frames and
  // the frames after them.
  absl::Status ResumeReplay() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Makes the index durable, then removes the files of dead segments. Files
  // that cannot be removed now are removed at the next step of Retain, or at
  // the next Open.
  void RemoveDeadSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status TryRemoveDeadSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes the file of a segment that is not in use, if it exists.
  absl::Status RemoveSegment(SegmentId segment);
  // Removes the files of segments in which nothing is kept.
  absl::Status RemoveDrainedSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Removes the entries of one deleted run from the index; false if there is no
  // such run.
  absl::StatusOr<bool> EmptyGoneRun()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_, log_.mu());
  // As EmptyGoneRun, and removes dead segments. Sets whether another run may be
  // emptied.
  absl::Status FreeGoneRun(bool& may_empty) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Executes one step; returns true when nothing is left to do now.
  absl::StatusOr<bool> SweepNames() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Returns how many bytes of the disk the store uses above the limits of the
  // policy. With `margin`, above the level to reach once a limit was exceeded.
  uint64_t ExcessBytes(const RetentionPolicy& policy, bool margin = false);
  // Returns nullopt if the store is closed.
  std::optional<Retainer::Room> RoomFor(const RetentionPolicy& policy)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sets how many bytes `room` must discard, and whether more must follow.
  void AimAtMargin(const RetentionPolicy& policy, Retainer::Room& room)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Checks, at most every kWatchIntervalNs, whether files of segments have
  // vanished or have been restored.
  absl::Status WatchSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The index could not be written, so the log must resume it.
  absl::Status IndexFailed(const absl::Status& status, std::string_view what)
      ABSL_LOCKS_EXCLUDED(log_.mu());

  const StoreOptions options_;
  Env& env_;
  const std::string segment_directory_;

  // The store id in the index when the store was opened.
  const uint64_t store_id_;

  // Thread-safe.
  Ballast& ballast_;
  IndexGate& index_;
  SegmentReader& reader_;
  DiskRoom& room_;
  IndexedAttachments& attachments_;
  StoreLog& log_;
  StoreFigures& figures_;

  Mutex mu_ ABSL_ACQUIRED_BEFORE(log_.mu());
  // The following objects belong to the current index.
  std::optional<Retainer> retainer_ ABSL_GUARDED_BY(mu_);
  std::optional<Sharer> sharer_ ABSL_GUARDED_BY(mu_);
  std::optional<Verifier> verifier_ ABSL_GUARDED_BY(mu_);
  std::optional<SegmentWatch> segment_watch_ ABSL_GUARDED_BY(mu_);
  int64_t next_watch_boot_ns_ ABSL_GUARDED_BY(mu_) = 0;
  // The disk passed a limit and is not yet as far below it as the policy
  // requires.
  bool is_making_room_ ABSL_GUARDED_BY(mu_) = false;
  std::optional<AgeClock> age_clock_ ABSL_GUARDED_BY(mu_);
  std::optional<NameSweep> name_sweep_ ABSL_GUARDED_BY(mu_);
  std::optional<SweepPass> sweep_pass_ ABSL_GUARDED_BY(mu_);
  int64_t next_sweep_boot_ns_ ABSL_GUARDED_BY(mu_) = 0;
  // True if dead segments may have files. Initially true, because that is not
  // known.
  bool has_dead_segments_ ABSL_GUARDED_BY(mu_) = true;
};

}  // namespace msitd::storage
