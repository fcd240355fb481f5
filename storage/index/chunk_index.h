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

// All tables of the index, and the changes that touch more than one of them.
// This folder alone knows RocksDB.
//
// Made and owned by the store. Thread-safe, but for frames() and Advance,
// which the append lock guards.
class ChunkIndex {
 public:
  // Opens the index. `store_id` is 0 if it is new, or was never initialised.
  //
  // Errors: DATA_LOSS if the index is corrupt; FAILED_PRECONDITION if a newer
  // program wrote it.
  static absl::StatusOr<std::unique_ptr<ChunkIndex>> Open(
      const IndexDb::Options& options);

  uint64_t store_id() const { return store_id_; }
  // Gives a new index the id of its store.
  absl::Status Initialise(uint64_t store_id);
  // Raises the version of the store, so that older programs, which do not know
  // all that this one writes, refuse it from now on. Does nothing if it is
  // raised already.
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

  // Takes the run away from everybody: nobody finds it, its name is free, and
  // what is left of it is marked for removal. Durable on return.
  absl::Status HideRun(std::string_view name);
  // Removes all entries of a hidden run in one step. Marks the segments that
  // only this run used dead, and returns them. Nothing of the run may be on its
  // way into the index.
  absl::StatusOr<std::vector<SegmentId>> EmptyRun(RunId run);

  // See Comparisons. NOT_FOUND with RUN_NOT_FOUND if one of `runs` does not
  // exist.
  // `wanted`: see CreateComparisonAs; 0 for none.
  absl::StatusOr<uint64_t> CreateComparison(std::string_view document,
                                            std::span<const std::string> runs,
                                            uint64_t wanted);

  // See AttachmentWriter::Commit and Attachments.
  absl::Status CommitAttachment(RunId run, const AttachmentInfo& attachment,
                                bool replaces);
  absl::Status DeleteAttachment(std::string_view run, std::string_view name);

  // Removes from the index what emptied runs left there: their comparisons, and
  // the room of their entries. Then gives back the room of comparisons that
  // were removed. One step; returns true once nothing is left. Does not hold up
  // others.
  absl::StatusOr<bool> TidyGoneRuns();

  // True if runs have been emptied since the names were last swept.
  //
  // ForgetNameSweep is called after a sweep. `gone_count` is what gone_count()
  // was when the sweep began: if more runs were emptied meanwhile, the next
  // sweep stays due.
  bool IsNameSweepDue();
  uint64_t gone_count();
  absl::Status ForgetNameSweep(uint64_t gone_count);

  // Gives up bytes of a run as `mark` says; durable on return.
  absl::Status Expire(SegmentId segment, RunId run, const ExpiryMark& mark);

  // Bytes that are shared from now on.
  struct Sharing {
    // Where they lie. If bytes occur twice, their last place counts.
    std::vector<std::pair<SharedBytes, BytePlace>> places;
    // Copies that nobody needs any more.
    std::vector<ByteRange> unfreed;
    uint64_t looked_at_end = 0;
  };
  // Durable on return.
  absl::Status Share(const Sharing& sharing);

  // See AgeClock; nothing if no mark was ever written.
  absl::StatusOr<std::optional<ClockMark>> Clock();
  absl::Status SetClock(const ClockMark& mark, bool durably);

  // How much of the log is in the index.
  absl::StatusOr<LogPosition> Position();

  // The number that the next run gets; no run has had it or a higher one.
  absl::StatusOr<uint64_t> NextRunId();
  // Moves the position past frames that add no entries.
  absl::Status Advance(const LogPosition& position);
  absl::StatusOr<NewestSegment> Newest();
  // Durable on return. With `is_indexed`, the index was flushed before.
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
  // Gives back the room of the entries of all runs from `first` to `last`,
  // which were emptied.
  absl::Status GiveRoomBack(RunId first, RunId last);
  explicit ChunkIndex(std::unique_ptr<IndexDb> db);
  absl::Status Load();
  // Makes a change of a run durable, then visible.
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

  // One change of runs at a time; held while it is written.
  Mutex run_change_mu_;
  bool is_name_sweep_due_ ABSL_GUARDED_BY(run_change_mu_) = false;
  // Runs emptied since Open.
  uint64_t gone_count_ ABSL_GUARDED_BY(run_change_mu_) = 0;
};

}  // namespace msitd::storage
