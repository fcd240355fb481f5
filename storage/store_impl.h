// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "protos/status/mutex.h"
#include "storage/append_gate.h"
#include "storage/disk_room.h"
#include "storage/env/ballast.h"
#include "storage/env/directory_lock.h"
#include "storage/env/env.h"
#include "storage/index/alias_resolver.h"
#include "storage/index/chunk_index.h"
#include "storage/index/index_gate.h"
#include "storage/index/name/name_sweep.h"
#include "storage/indexed_attachments.h"
#include "storage/indexed_comparisons.h"
#include "storage/indexed_runs.h"
#include "storage/log_replay.h"
#include "storage/read/stored_run_readers.h"
#include "storage/segment/segment_reader.h"
#include "storage/segment/segment_scanner.h"
#include "storage/segment/segment_set.h"
#include "storage/segment/segment_writer.h"
#include "storage/side_thread.h"
#include "storage/store.h"
#include "storage/upkeep/age_clock.h"
#include "storage/upkeep/retainer.h"
#include "storage/upkeep/segment_watch.h"
#include "storage/upkeep/sharer.h"
#include "storage/upkeep/verifier.h"

namespace msitd::storage {

// Directories of the files of a store, below its own directory.
std::string SegmentDirectory(const std::string& directory);
std::string IndexDirectory(const std::string& directory);

// Refuses an index that is not in the state in which it was left: DATA_LOSS if
// RocksDB would treat it as a new one, or if it has lost entries. The index
// must not be open. Writes nothing.
absl::Status CheckIndex(const StoreOptions& options, Env& env);

// Opens the index of a store whose directories exist. With `creates`, creates
// the index if it does not exist.
absl::StatusOr<std::unique_ptr<ChunkIndex>> OpenIndex(
    const StoreOptions& options, Env& env, Ballast& ballast, bool creates);

// A store on segments and RocksDB. It implements ChunkLog and Upkeep itself,
// because both create and remove segments. The other interfaces are separate
// objects.
//
// Frames are written to one segment at a time; the index is updated after each
// sync.
class StoreImpl final : public Store, private ChunkLog, private Upkeep {
 public:
  StoreImpl(const StoreOptions& options, Env& env, DirectoryLock lock,
            std::unique_ptr<Ballast> ballast,
            std::unique_ptr<ChunkIndex> index);
  // Without a preceding Close, this is equivalent to a crash of the process.
  ~StoreImpl() override;

  // Indexes all frames up to the end of the log. Must be called once, before
  // everything else.
  absl::Status Recover() ABSL_LOCKS_EXCLUDED(retain_mu_, append_mu_);

  Runs& runs() override { return runs_; }
  ChunkLog& log() override { return *this; }
  RunReaders& readers() override { return readers_; }
  Comparisons& comparisons() override { return comparisons_; }
  Attachments& attachments() override { return attachments_; }
  Upkeep& upkeep() override { return *this; }
  absl::Status Close() override;

 private:
  absl::Status Append(std::span<chunk::Chunk> chunks) override;
  absl::Status Probe() override;
  absl::StatusOr<uint64_t> CommittedChunkCount(std::string_view run,
                                               int32_t rank,
                                               uint64_t stream_id) override;
  absl::StatusOr<bool> HasChunksOfOthers(std::string_view run, int32_t rank,
                                         uint64_t stream_id) override;
  absl::StatusOr<StreamCoverage> ReportCoverage(
      std::string_view run, int32_t rank, uint64_t stream_id,
      const StreamCoverage& coverage) override;

  absl::StatusOr<RetentionStep> Retain(const RetentionPolicy& policy) override;
  absl::StatusOr<ShareStep> Share() override;
  absl::StatusOr<bool> Tidy() override;
  absl::StatusOr<VerifyStep> Verify(const VerifyPolicy& policy) override;
  StoreStats Stats() override;

  struct Admitted {
    chunk::Chunk* chunk;
    RunId run;
  };
  // End of an earlier segment, for the header of the next one.
  struct SegmentEnd {
    uint64_t segment_id = 0;
    uint64_t end_bytes = 0;
  };
  // Returns the chunks that are new and may be written; appends_ then holds
  // their runs.
  absl::StatusOr<std::vector<Admitted>> Admit(std::span<chunk::Chunk> chunks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Writes chunks and adds them to the index.
  absl::Status AppendAdmitted(std::span<const Admitted> admitted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Stamps the positions of the frames.
  absl::Status PlaceFrames(std::span<const Admitted> admitted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Writes frames that were placed and makes them durable.
  absl::Status WriteFrames(std::span<const Admitted> admitted,
                           const AliasResolver& aliases)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // As WriteFrames, and prepares the index entries of the frames: concurrently
  // on preparer_ if that is possible and worthwhile.
  absl::StatusOr<FrameIndexer::Prepared> WriteAndPrepare(
      std::span<const Admitted> admitted, std::span<const IndexedFrame> frames,
      const AliasResolver& aliases) ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Returns RESOURCE_EXHAUSTED unless the disk has room for `bytes` bytes of
  // frames and for their index entries.
  absl::Status EnsureRoom(uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Resumes the index after a failed write.
  absl::Status ResumeIndex() ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Reopens the index if ResumeIndex has failed kFailedResumesMax times in a
  // row, and indexes all frames up to the end of the log.
  absl::Status ReopenLostIndex() ABSL_LOCKS_EXCLUDED(retain_mu_, append_mu_);
  absl::Status BringUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_, append_mu_);
  // Creates the objects that work on the current index.
  void MakeUpkeep() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_);
  // If files that the log waits for have been restored, reads their frames and
  // the frames after them.
  absl::Status ResumeReplay() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_)
      ABSL_LOCKS_EXCLUDED(append_mu_);
  // Returns UNAVAILABLE while frames of missing segments are not indexed.
  absl::Status CheckLogIsWhole() ABSL_LOCKS_EXCLUDED(stats_mu_);
  // Publishes the missing segments, and which of them prevent appends.
  void PublishMissing() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_, append_mu_);
  // Durably records that the current segment has frames, before any of them is
  // acknowledged.
  absl::Status RecordNewest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Returns true if the files of sealed segments may be removed. Makes the
  // index durable if the newest segment is sealed, because otherwise a start
  // would wait for its file.
  bool MayRemoveSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  absl::Status BeginSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Ends the current segment, if any, at its last acknowledged byte.
  void EndSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Makes the index durable, then removes the files of dead segments. Files
  // that cannot be removed now are removed at the next step of Retain, or at
  // the next Open.
  void RemoveDeadSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_);
  absl::Status TryRemoveDeadSegments()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_);
  // Removes the entries of one deleted run from the index; false if there is no
  // such run.
  absl::StatusOr<bool> EmptyGoneRun()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_, append_mu_);
  // Calls EmptyGoneRun for all deleted runs if no other maintenance is in
  // progress; otherwise Retain does this later.
  void TryEmptyGoneRuns() ABSL_LOCKS_EXCLUDED(retain_mu_, append_mu_);

  // Executes one step; returns true when nothing is left to do now.
  absl::StatusOr<bool> SweepNames() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_);

  // Returns how many bytes of the disk the store uses above the limits of the
  // policy. With `margin`, above the level to reach once a limit was exceeded.
  uint64_t ExcessBytes(const RetentionPolicy& policy, bool margin = false);
  Retainer::Room RoomFor(const RetentionPolicy& policy)
      ABSL_LOCKS_EXCLUDED(append_mu_);
  // Sets how many bytes `room` must discard, and whether more must follow.
  void AimAtMargin(const RetentionPolicy& policy, Retainer::Room& room)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_);
  // Ends the current segment if it is long or old enough; true if it did.
  bool SealForRetention() ABSL_LOCKS_EXCLUDED(append_mu_);
  // Checks, at most every kWatchIntervalNs, whether files of segments have
  // vanished or have been restored.
  absl::Status WatchSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_)
      ABSL_LOCKS_EXCLUDED(append_mu_);
  // Removes the files of segments in which nothing is kept.
  absl::Status RemoveDrainedSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_)
      ABSL_LOCKS_EXCLUDED(append_mu_);

  absl::Status FinishReplay(const std::vector<SegmentFile>& files,
                            const LogReplay& replay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_, append_mu_);
  // Truncates torn tails and removes files that never had a frame.
  void TidySegments(const std::vector<SegmentFile>& files,
                    const LogReplay& replay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);

  std::string PathOf(SegmentId id) const;

  // Constant after construction.
  const StoreOptions options_;
  Env& env_;
  const DirectoryLock lock_;
  const std::string segment_directory_;

  // Thread-safe. The index writes with the space of the ballast.
  const std::unique_ptr<Ballast> ballast_;
  IndexGate index_;
  SegmentReader reader_;
  DiskRoom room_;
  AppendGate appends_;

  IndexedRuns runs_;
  IndexedComparisons comparisons_;
  IndexedAttachments attachments_;
  StoredRunReaders readers_;

  // Held for a step of retention or sharing, and by all work that must not run
  // concurrently with it.
  Mutex retain_mu_ ABSL_ACQUIRED_BEFORE(append_mu_);
  // The following objects belong to the current index.
  std::optional<Retainer> retainer_ ABSL_GUARDED_BY(retain_mu_);
  std::optional<Sharer> sharer_ ABSL_GUARDED_BY(retain_mu_);
  std::optional<Verifier> verifier_ ABSL_GUARDED_BY(retain_mu_);
  std::optional<SegmentWatch> segment_watch_ ABSL_GUARDED_BY(retain_mu_);
  int64_t next_watch_boot_ns_ ABSL_GUARDED_BY(retain_mu_) = 0;
  // The disk passed a limit and is not yet as far below it as the policy
  // requires.
  bool is_making_room_ ABSL_GUARDED_BY(retain_mu_) = false;
  std::optional<AgeClock> age_clock_ ABSL_GUARDED_BY(retain_mu_);
  std::optional<NameSweep> name_sweep_ ABSL_GUARDED_BY(retain_mu_);
  // The current pass.
  struct SweepPass {
    bool has_looked = false;
    uint64_t gone_count = 0;
    int64_t work_ns = 0;
  };
  std::optional<SweepPass> sweep_pass_ ABSL_GUARDED_BY(retain_mu_);
  int64_t next_sweep_boot_ns_ ABSL_GUARDED_BY(retain_mu_) = 0;
  // True if dead segments may have files. Initially true, because that is not
  // known.
  bool has_dead_segments_ ABSL_GUARDED_BY(retain_mu_) = true;

  Mutex append_mu_;
  // The store id in the index when the store was opened.
  uint64_t store_id_ ABSL_GUARDED_BY(append_mu_) = 0;
  std::unique_ptr<SegmentWriter> writer_ ABSL_GUARDED_BY(append_mu_);
  SideThread preparer_ ABSL_GUARDED_BY(append_mu_);
  // End of the acknowledged bytes in the current segment.
  uint64_t acknowledged_bytes_ ABSL_GUARDED_BY(append_mu_) = 0;
  int64_t segment_begin_boot_ns_ ABSL_GUARDED_BY(append_mu_) = 0;
  SegmentEnd previous_ ABSL_GUARDED_BY(append_mu_);
  // As stored in the index, and as it was before the current segment.
  NewestSegment newest_ ABSL_GUARDED_BY(append_mu_);
  NewestSegment newest_before_ ABSL_GUARDED_BY(append_mu_);
  // The segment of an entry whose write failed, but which may be on the disk
  // anyway; 0 if there is none.
  uint64_t doubtful_newest_ ABSL_GUARDED_BY(append_mu_) = 0;
  // See LogReplay::Awaited. While this is not empty, the index ends before the
  // first of these segments and no chunks are accepted.
  std::vector<uint64_t> awaited_ ABSL_GUARDED_BY(append_mu_);
  // The sizes of those of them whose files existed at the last check. A file
  // that is still growing is being copied.
  std::map<uint64_t, uint64_t> returned_sizes_ ABSL_GUARDED_BY(append_mu_);
  // End of the indexed part of the log.
  LogPosition reached_ ABSL_GUARDED_BY(append_mu_);
  uint64_t next_segment_id_ ABSL_GUARDED_BY(append_mu_) = 1;
  uint64_t next_frame_sequence_ ABSL_GUARDED_BY(append_mu_) = 1;
  // True if the disk has enough space for preallocation.
  bool asks_ahead_ ABSL_GUARDED_BY(append_mu_) = true;
  // A write to the index failed; writes may fail until ResumeIndex succeeds.
  bool index_failed_ ABSL_GUARDED_BY(append_mu_) = false;
  // Number of consecutive failures of ResumeIndex.
  int failed_resume_count_ ABSL_GUARDED_BY(append_mu_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(append_mu_) = false;

  Mutex stats_mu_ ABSL_ACQUIRED_AFTER(append_mu_);
  StoreStats stats_ ABSL_GUARDED_BY(stats_mu_);
  std::map<uint64_t, uint64_t> segment_sizes_ ABSL_GUARDED_BY(stats_mu_);
};

}  // namespace msitd::storage
