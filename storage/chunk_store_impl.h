// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "protos/status/mutex.h"
#include "storage/age_clock.h"
#include "storage/chunk_store.h"
#include "storage/env/ballast.h"
#include "storage/env/directory_lock.h"
#include "storage/env/env.h"
#include "storage/index/chunk_index.h"
#include "storage/index/name_sweep.h"
#include "storage/index_gate.h"
#include "storage/read_pool.h"
#include "storage/retainer.h"
#include "storage/segment/segment_reader.h"
#include "storage/segment/segment_scanner.h"
#include "storage/segment/segment_set.h"
#include "storage/segment/segment_writer.h"
#include "storage/sharer.h"
#include "storage/side_thread.h"

namespace msitd::storage {

// Where the files of a store lie below its directory.
std::string SegmentDirectory(const std::string& directory);
std::string IndexDirectory(const std::string& directory);

// What a producer is told of a failure of the disk or the index.
absl::Status ToAppendStatus(const absl::Status& status);

// Makes the ballast of a store whose directory is there, and gives it up if the
// disk has less room than that.
std::unique_ptr<Ballast> MakeBallast(const StoreOptions& options, Env& env);

// ChunkStore over segments and RocksDB. See chunk_store.h.
//
// Frames go to one segment at a time; the index follows each sync. Sealing and
// deleting a run wait for an Append that has chunks of the run, and for no
// other.
class ChunkStoreImpl final : public ChunkStore {
 public:
  ChunkStoreImpl(const StoreOptions& options, Env& env, DirectoryLock lock,
                 std::unique_ptr<Ballast> ballast,
                 std::unique_ptr<ChunkIndex> index);
  // Without Close before it, like a crash of the process.
  ~ChunkStoreImpl() override;

  // Opens the index of a store whose directories are there. `creates`: makes it
  // if it is not there.
  static absl::StatusOr<std::unique_ptr<ChunkIndex>> OpenIndex(
      const StoreOptions& options, Env& env, Ballast& ballast, bool creates);

  // Brings the index up to the end of the log. Called once, before all else.
  absl::Status Recover() ABSL_LOCKS_EXCLUDED(retain_mu_, append_mu_);

  absl::StatusOr<RunInfo> CreateRun(const RunSpec& spec) override;
  absl::StatusOr<RunInfo> GetRun(std::string_view name) override;
  absl::StatusOr<RunInfo> SealRun(std::string_view name) override;
  absl::StatusOr<RunInfo> SetWorldSize(std::string_view name,
                                       int32_t world_size) override;
  absl::StatusOr<RunInfo> SetJob(std::string_view name,
                                 std::string_view job) override;
  absl::StatusOr<std::vector<RunInfo>> ListRuns(std::string_view after,
                                                size_t limit) override;
  absl::Status DeleteRun(std::string_view name) override;
  absl::StatusOr<RunInfo> SetCapturePolicy(std::string_view name,
                                           std::string_view policy) override;
  absl::StatusOr<uint64_t> ReportCoverage(
      std::string_view run, int32_t rank, uint64_t stream_id,
      const StreamCoverage& coverage) override;
  absl::StatusOr<std::vector<RankCoverage>> GetCoverage(
      std::string_view run) override;
  absl::StatusOr<RunInfo> SetRetention(std::string_view name,
                                       const RunRetention& retention) override;
  absl::StatusOr<RetentionStep> Retain(const RetentionPolicy& policy) override;
  absl::StatusOr<ShareStep> Share() override;
  absl::StatusOr<bool> Tidy() override;

  absl::Status Append(std::span<chunk::Chunk> chunks) override;
  absl::Status Probe() override;
  absl::StatusOr<uint64_t> CommittedChunkCount(std::string_view run,
                                               int32_t rank,
                                               uint64_t stream_id) override;
  absl::StatusOr<bool> HasChunksOfOthers(std::string_view run, int32_t rank,
                                         uint64_t stream_id) override;

  absl::StatusOr<TensorInfo> GetTensor(const TensorKey& key) override;
  absl::StatusOr<std::unique_ptr<TensorScan>> Scan(
      std::string_view run, TensorSelector selector,
      std::string_view position) override;
  absl::StatusOr<std::vector<Coordinate>> ListCoordinates(
      std::string_view run, const TensorSelector& selector) override;
  absl::StatusOr<std::vector<int32_t>> ListRanks(std::string_view run) override;
  absl::StatusOr<std::vector<std::string>> ListPlacements(
      std::string_view run) override;
  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const PartLocation& part, AlignedBuffer& buffer) override;
  std::unique_ptr<PartBatch> ReadParts(std::span<const PartLocation> parts,
                                       AlignedBuffer& buffer) override;
  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) override;

  absl::StatusOr<uint64_t> CreateComparison(
      std::string_view document, std::span<const std::string> runs) override;
  absl::Status PutComparison(uint64_t id, std::string_view document) override;
  absl::StatusOr<std::string> GetComparison(uint64_t id) override;
  absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>> ListComparisons(
      uint64_t after, size_t limit) override;
  absl::Status DeleteComparison(uint64_t id) override;
  absl::Status PutComparisonRows(uint64_t id, uint64_t first_row,
                                 std::span<const std::string> rows) override;
  absl::StatusOr<std::vector<std::string>> GetComparisonRows(
      uint64_t id, uint64_t first_row, size_t limit) override;

  StoreStats Stats() override;
  absl::Status Close() override;

 private:
  struct Admitted {
    chunk::Chunk* chunk;
    RunId run;
  };
  // Where an earlier segment ends, for the header of the next one.
  struct SegmentEnd {
    uint64_t segment_id = 0;
    uint64_t end_bytes = 0;
  };
  class Batch;
  // What Recover carries from frame to frame.
  struct Replay;

  // Chunks that are new and may be written.
  absl::StatusOr<std::vector<Admitted>> Admit(std::span<chunk::Chunk> chunks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_) ABSL_LOCKS_EXCLUDED(admit_mu_);
  // Their runs may be changed again.
  void Release() ABSL_LOCKS_EXCLUDED(admit_mu_);
  // Returns once no Append has chunks of the run of this name; one that comes
  // waits for admit_mu_.
  absl::Status AwaitAppendOf(std::string_view run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(admit_mu_);
  // Writes chunks and puts them into the index.
  absl::Status AppendAdmitted(std::span<const Admitted> admitted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Stamps where the frames go.
  absl::Status PlaceFrames(std::span<const Admitted> admitted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Makes frames that were placed durable.
  absl::Status WriteFrames(std::span<const Admitted> admitted)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // The same, and prepares the index for them at the same time where that is
  // possible and worth it.
  absl::StatusOr<FrameIndexer::Prepared> WriteAndPrepare(
      std::span<const Admitted> admitted, std::span<const IndexedFrame> frames)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Takes as much of the ballast again as there is room for.
  void KeepBallast();
  // RESOURCE_EXHAUSTED unless the ballast is whole and `bytes` are free.
  absl::Status EnsureFree(uint64_t bytes);
  // Sees that the disk takes `bytes` of frames and what the index adds to them.
  // RESOURCE_EXHAUSTED otherwise.
  absl::Status EnsureRoom(uint64_t bytes)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // The same for something small that is not urgent; a status for the caller.
  absl::Status EnsureRoomForRecord();
  // Has the index leave the state that a failed write put it into.
  absl::Status ResumeIndex() ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Opens the index anew if it did not leave it, and brings it up to the end of
  // the log.
  absl::Status ReopenLostIndex() ABSL_LOCKS_EXCLUDED(retain_mu_, append_mu_);
  absl::Status BringUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_, append_mu_);
  absl::Status BeginSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Ends the segment in use, if there is one, at its last acknowledged byte.
  void EndSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // Makes the index durable, then removes the files of dead segments. What
  // cannot be removed now is at the next step of Retain, or at the next Open.
  void RemoveDeadSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_);
  absl::Status TryRemoveDeadSegments()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_);
  // Takes one deleted run out of the index; false if there is none.
  absl::StatusOr<bool> EmptyGoneRun()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_, append_mu_);
  // Does so for all of them if nobody else is at work; otherwise Retain does.
  absl::Status TryEmptyGoneRuns() ABSL_LOCKS_EXCLUDED(retain_mu_, append_mu_);

  // True if the bytes of a part, or its sample, have been given up.
  bool IsExpired(const PartLocation& part) const;
  // Reads a part that has no longer the bytes it came with, which is what
  // `failure` says of `part`.
  absl::StatusOr<std::span<const std::byte>> ReadShared(
      const PartLocation& part, const absl::Status& failure,
      AlignedBuffer& buffer);

  // One step; true once nothing is left to do now.
  absl::StatusOr<bool> SweepNames() ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_);

  // How much more of the disk the store uses than it is to.
  uint64_t ExcessBytes(const RetentionPolicy& policy);
  Retainer::Room RoomFor(const RetentionPolicy& policy)
      ABSL_LOCKS_EXCLUDED(append_mu_);
  // Ends the segment in use if it is long or old enough; true if it did.
  bool SealForRetention() ABSL_LOCKS_EXCLUDED(append_mu_);
  // Removes the files of segments that nobody keeps anything of.
  absl::Status RemoveDrainedSegments()
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_);

  absl::Status ReplaySegment(const SegmentFile& file, Replay& replay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  absl::Status ReplayFrame(File& file, FoundFrame frame, bool is_durable,
                           Replay& replay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  // The segment goes when the run is emptied that only was hidden so far.
  absl::Status NoteGoneFrame(uint64_t segment, RunId run);
  absl::Status CommitReplay(Replay& replay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);
  absl::Status FinishReplay(const std::vector<SegmentFile>& files,
                            Replay& replay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(retain_mu_, append_mu_);
  // Cuts torn tails off and removes files that never held a frame.
  void TidySegments(const std::vector<SegmentFile>& files, const Replay& replay)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(append_mu_);

  std::string PathOf(SegmentId id) const;

  // Constant after construction.
  const StoreOptions options_;
  Env& env_;
  const DirectoryLock lock_;
  const std::string segment_directory_;

  // Thread-safe by themselves. The index writes with the room of the ballast.
  const std::unique_ptr<Ballast> ballast_;
  mutable IndexGate index_;
  SegmentReader reader_;
  ReadPool read_pool_;

  // Held for a step of retention or sharing, and by what must not come between.
  Mutex retain_mu_ ABSL_ACQUIRED_BEFORE(append_mu_);
  // Of the present index.
  std::optional<Retainer> retainer_ ABSL_GUARDED_BY(retain_mu_);
  std::optional<Sharer> sharer_ ABSL_GUARDED_BY(retain_mu_);
  std::optional<AgeClock> age_clock_ ABSL_GUARDED_BY(retain_mu_);
  std::optional<NameSweep> name_sweep_ ABSL_GUARDED_BY(retain_mu_);
  // The pass under way.
  struct SweepPass {
    bool has_looked = false;
    uint64_t gone_count = 0;
    int64_t work_ns = 0;
  };
  std::optional<SweepPass> sweep_pass_ ABSL_GUARDED_BY(retain_mu_);
  int64_t next_sweep_boot_ns_ ABSL_GUARDED_BY(retain_mu_) = 0;
  // Segments that are dead may have files; so it is until this is found out.
  bool has_dead_segments_ ABSL_GUARDED_BY(retain_mu_) = true;

  Mutex append_mu_;
  // Of the index that the store was opened with.
  uint64_t store_id_ ABSL_GUARDED_BY(append_mu_) = 0;
  std::unique_ptr<SegmentWriter> writer_ ABSL_GUARDED_BY(append_mu_);
  SideThread preparer_ ABSL_GUARDED_BY(append_mu_);
  // End of what is acknowledged in the segment in use.
  uint64_t acknowledged_bytes_ ABSL_GUARDED_BY(append_mu_) = 0;
  int64_t segment_begin_boot_ns_ ABSL_GUARDED_BY(append_mu_) = 0;
  SegmentEnd previous_ ABSL_GUARDED_BY(append_mu_);
  uint64_t next_segment_id_ ABSL_GUARDED_BY(append_mu_) = 1;
  uint64_t next_frame_sequence_ ABSL_GUARDED_BY(append_mu_) = 1;
  // The disk has room enough to ask for some ahead.
  bool asks_ahead_ ABSL_GUARDED_BY(append_mu_) = true;
  // A write to the index failed, and may go on failing until told to resume.
  bool index_failed_ ABSL_GUARDED_BY(append_mu_) = false;
  // How often in a row that was of no avail.
  int failed_resume_count_ ABSL_GUARDED_BY(append_mu_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(append_mu_) = false;

  // Held while chunks are let through or a run is changed so that no more of
  // its chunks are.
  Mutex admit_mu_ ABSL_ACQUIRED_AFTER(append_mu_);
  CondVar released_;  // appending_ became empty.
  // The runs of which the present Append has chunks.
  std::set<uint64_t> appending_ ABSL_GUARDED_BY(admit_mu_);

  Mutex stats_mu_ ABSL_ACQUIRED_AFTER(append_mu_);
  StoreStats stats_ ABSL_GUARDED_BY(stats_mu_);
  std::map<uint64_t, uint64_t> segment_sizes_ ABSL_GUARDED_BY(stats_mu_);
};

}  // namespace msitd::storage
