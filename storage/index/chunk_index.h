// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_value.h"
#include "storage/index/db/log_position.h"
#include "storage/index/frame_indexer.h"
#include "storage/index/name/name_table.h"
#include "storage/index/name/placement_table.h"
#include "storage/index/scan/tensor_finder.h"
#include "storage/index/table/attachment_table.h"
#include "storage/index/table/comparison_table.h"
#include "storage/index/table/continuation_table.h"
#include "storage/index/table/coverage_table.h"
#include "storage/index/table/expiry_table.h"
#include "storage/index/table/gone_table.h"
#include "storage/index/table/run_table.h"
#include "storage/index/table/segment_table.h"
#include "storage/index/table/shared_table.h"
#include "storage/index/table/stream_table.h"
#include "storage/index/table/verify_table.h"

namespace msitd::storage {

// All tables of the index, and the operations that change several of them. No
// other folder depends on RocksDB.
//
// The problem. Queries select tensors by rank, token, op and side in a fixed
// order, over runs with many millions of parts, while chunks of all ranks are
// being added.
//
// Why RocksDB. Entries arrive in arrival order but are read in key order, which
// is the workload of a log-structured merge tree. A B-tree would do random
// writes, and sorted files of our own would need compaction, snapshots and
// checksums that RocksDB already has.
//
// Why numbers instead of names. A key stores the ids of its names (see
// NameTable), so that it has 32 bytes instead of hundreds, its fields compare
// as big-endian bytes, and a scan can seek past ranks, tokens or ops that do
// not match. The order of ops is therefore that of their first appearance, not
// the alphabetical one.
//
// Why entries are not logged. Frames contain everything that an entry has, and
// are durable before they are indexed. So RocksDB need not log entries: after a
// crash, the frames after the recorded log position are indexed again. Only
// data that no frame contains, such as runs, comparisons and attachments, is
// logged and synced.
//
// The costs. Every name needs a lookup before an entry is written; names of
// deleted runs must be swept (see NameSweep); all tables must be flushed
// together, so that they describe the same log position; and the first start
// after a crash takes longer.
//
// Created and owned by the store. Thread-safe, except for frames() and Advance,
// which are guarded by the append lock.
class ChunkIndex {
 public:
  // Opens the index. `store_id` is 0 if the index is new or was never
  // initialised.
  //
  // Errors: DATA_LOSS if the index is corrupt; FAILED_PRECONDITION if a newer
  // program wrote it.
  static absl::StatusOr<std::unique_ptr<ChunkIndex>> Open(
      const IndexDb::Options& options);

  uint64_t store_id() const { return store_id_; }
  // Sets the id of the store in a new index.
  absl::Status Initialise(uint64_t store_id);
  // Raises the version of the store, so that older programs that do not support
  // everything that this program writes refuse to open it. Has no effect if it
  // is already raised.
  absl::Status RaiseVersion();

  // See Runs.
  absl::StatusOr<RunInfo> CreateRun(const RunSpec& spec, int64_t now_ns);
  absl::StatusOr<RunInfo> SealRun(std::string_view name, int64_t now_ns);
  absl::StatusOr<RunInfo> SetWorldSize(std::string_view name,
                                       int32_t world_size);
  absl::StatusOr<RunInfo> SetJob(std::string_view name, std::string_view job);
  absl::StatusOr<RunContinuations> GetContinuations(std::string_view name,
                                                    int32_t rank);
  absl::Status SetContinuations(std::string_view name, int32_t rank,
                                const RunContinuations& continuations,
                                bool has_new_job);
  absl::StatusOr<RunInfo> EndRestore(std::string_view name);
  absl::StatusOr<RunInfo> SetRetention(std::string_view name,
                                       const RunRetention& retention);
  absl::StatusOr<RunInfo> SetCapturePolicy(std::string_view name,
                                           std::string_view policy);
  absl::StatusOr<StreamCoverage> ReportCoverage(std::string_view name,
                                                int32_t rank,
                                                uint64_t stream_id,
                                                const StreamCoverage& coverage);

  // Hides the run: it can no longer be found, its name is free, and its
  // remaining data is marked for removal. Durable on return.
  absl::Status HideRun(std::string_view name);
  // Removes all entries of a hidden run in one step. Marks the segments that
  // only this run used as dead, and returns them. No data of the run may be in
  // the process of being indexed.
  absl::StatusOr<std::vector<SegmentId>> EmptyRun(RunId run);

  // See Comparisons. Returns NOT_FOUND with RUN_NOT_FOUND if one of `runs` does
  // not exist. See CreateComparisonAs for `wanted`; 0 for none.
  absl::StatusOr<uint64_t> CreateComparison(std::string_view document,
                                            std::span<const std::string> runs,
                                            uint64_t wanted);

  // See AttachmentWriter::Commit and Attachments.
  absl::Status CommitAttachment(RunId run, const AttachmentInfo& attachment,
                                bool replaces);
  absl::Status DeleteAttachment(std::string_view run, std::string_view name);

  // Removes what emptied runs left in the index: their comparisons, and the
  // space of their entries. Then reclaims the space of removed comparisons.
  // Executes one step and returns true when nothing is left. Does not block
  // other users.
  absl::StatusOr<bool> TidyGoneRuns();

  // True if runs were emptied since the last sweep of names.
  //
  // ForgetNameSweep must be called after a sweep, with the value of
  // gone_count() at the start of the sweep. If more runs were emptied during
  // the sweep, another sweep remains due.
  bool IsNameSweepDue();
  uint64_t gone_count();
  absl::Status ForgetNameSweep(uint64_t gone_count);

  // Discards bytes of a run as described by `mark`; durable on return.
  absl::Status Expire(SegmentId segment, RunId run, const ExpiryMark& mark);

  // Bytes that are shared from now on.
  struct Sharing {
    // Location of the bytes. If bytes are listed twice, the last location is
    // used.
    std::vector<std::pair<SharedBytes, BytePlace>> places;
    // Copies that are no longer needed.
    std::vector<ByteRange> unfreed;
    uint64_t looked_at_end = 0;
  };
  // Applies `sharing`; durable on return.
  absl::Status Share(const Sharing& sharing);

  // See AgeClock; nothing if no mark was ever written.
  absl::StatusOr<std::optional<ClockMark>> Clock();
  absl::Status SetClock(const ClockMark& mark, bool durably);

  // Returns how much of the log has been indexed.
  absl::StatusOr<LogPosition> Position();

  // Returns the number that the next run will get; no run has had this number
  // or a higher one.
  absl::StatusOr<uint64_t> NextRunId();
  // Moves the position past frames that add no entries.
  absl::Status Advance(const LogPosition& position);
  absl::StatusOr<NewestSegment> Newest();
  // Durable on return. With `is_indexed`, the index must have been flushed
  // before.
  absl::Status SetNewest(const NewestSegment& newest);

  IndexDb& db() { return *db_; }
  NameTable& names() { return names_; }
  RunTable& runs() { return runs_; }
  GoneTable& gone() { return gone_; }
  StreamTable& streams() { return streams_; }
  CoverageTable& coverage() { return coverage_; }
  SegmentTable& segments() { return segments_; }
  PlacementTable& placements() { return placements_; }
  ExpiryTable& expiry() { return expiry_; }
  SharedTable& shared() { return shared_; }
  VerifyTable& verify() { return verify_; }
  ComparisonTable& comparisons() { return comparisons_; }
  AttachmentTable& attachments() { return attachments_; }
  FrameIndexer& frames() { return frames_; }
  TensorFinder& tensors() { return tensors_; }

 private:
  // Reclaims the space of the entries of all runs from `first` to `last`, which
  // must have been emptied.
  absl::Status GiveRoomBack(RunId first, RunId last);
  explicit ChunkIndex(std::unique_ptr<IndexDb> db);
  absl::Status Load();
  // Makes a change of a run durable and then visible.
  absl::StatusOr<RunInfo> StoreRun(RunInfo run)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(run_change_mu_);

  const std::unique_ptr<IndexDb> db_;
  uint64_t store_id_ = 0;
  bool has_newest_version_ = false;
  NameTable names_;
  RunTable runs_;
  GoneTable gone_;
  StreamTable streams_;
  CoverageTable coverage_;
  ContinuationTable continuations_;
  SegmentTable segments_;
  PlacementTable placements_;
  ExpiryTable expiry_;
  SharedTable shared_;
  VerifyTable verify_;
  ComparisonTable comparisons_;
  AttachmentTable attachments_;
  FrameIndexer frames_;
  TensorFinder tensors_;

  // Serializes changes of runs; held while a change is written.
  Mutex run_change_mu_;
  bool is_name_sweep_due_ ABSL_GUARDED_BY(run_change_mu_) = false;
  // Number of runs emptied since Open.
  uint64_t gone_count_ ABSL_GUARDED_BY(run_change_mu_) = 0;
};

}  // namespace msitd::storage
