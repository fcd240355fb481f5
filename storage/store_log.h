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
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/chunk/chunk.h"
#include "protos/status/mutex.h"
#include "storage/append_gate.h"
#include "storage/disk_room.h"
#include "storage/env/env.h"
#include "storage/face/chunk_log.h"
#include "storage/index/alias_resolver.h"
#include "storage/index/chunk_index.h"
#include "storage/index/db/log_position.h"
#include "storage/index/index_gate.h"
#include "storage/log_replay.h"
#include "storage/segment/log_frame.h"
#include "storage/segment/segment_id.h"
#include "storage/segment/segment_reader.h"
#include "storage/segment/segment_set.h"
#include "storage/segment/segment_writer.h"
#include "storage/side_thread.h"
#include "storage/store.h"
#include "storage/store_figures.h"

namespace msitd::storage {

// The log of a store: its segments, the position up to which the index has
// their frames, and the only code that writes frames.
//
// Frames are written to one segment at a time; the index is updated after each
// sync. A segment ends when it is long enough, when an append fails, or when
// upkeep ends it.
//
// Upkeep must exclude appends for some of its work. It therefore acquires mu(),
// after its own lock.
class StoreLog final : public ChunkLog {
 public:
  // The parts of the store that the log uses. They must outlive it.
  struct Parts {
    IndexGate& index;
    SegmentReader& reader;
    DiskRoom& room;
    AppendGate& appends;
    StoreFigures& figures;
  };

  // `reopen_index` is called without locks, before an append or a probe, if
  // HasLostIndex may be true. It opens the index again if necessary.
  StoreLog(const StoreOptions& options, Env& env, const Parts& parts,
           absl::AnyInvocable<absl::Status() const> reopen_index);

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

  // Held for an append, and by work that no append may overlap.
  Mutex& mu() ABSL_LOCK_RETURNED(mu_) { return mu_; }

  // The segments up to which all frames are in the index.
  struct Extent {
    // Segments with lower numbers receive no more frames.
    uint64_t sealed_end = 0;
    // End of the acknowledged bytes in segment `sealed_end`.
    uint64_t open_end_bytes = 0;
  };
  // Returns nullopt after Close.
  std::optional<Extent> CurrentExtent() ABSL_LOCKS_EXCLUDED(mu_);

  // Ends the current segment if it is long or old enough for retention to
  // discard bytes in it. Returns whether it did.
  bool SealForRetention() ABSL_LOCKS_EXCLUDED(mu_);

  // Indexes all frames that the index lacks, up to the end of the log or to the
  // first segment that is missing. Returns the segments with their ends, and
  // whether dead segments may be removed.
  struct Recovered {
    std::vector<SegmentFile> files;
    std::map<uint64_t, uint64_t> ends;
    bool may_remove_segments = false;
  };
  absl::StatusOr<Recovered> BringUp() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Returns true if files that the log waits for have been restored, so that
  // BringUp must be called again. A file that is still growing is being copied,
  // and is not counted.
  absl::StatusOr<bool> HasRestoredFiles() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // See LogReplay::Awaited. While this is not empty, the index ends before the
  // first of these segments and no chunks are accepted.
  const std::vector<uint64_t>& awaited() const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return awaited_;
  }

  // Returns true if the index could not be resumed several times in a row, so
  // that it must be opened again. OnIndexReopened then ends that state.
  bool HasLostIndex() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void OnIndexReopened() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A write to the index failed, so it must be resumed before the next append.
  void OnIndexFailure() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    index_failed_ = true;
  }

  // Returns true if the files of sealed segments may be removed. Makes the
  // index durable if the newest segment is sealed, because otherwise a start
  // would wait for its file.
  bool MayRemoveSegments() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Ends the current segment, if any, at its last acknowledged byte.
  void EndSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns whether `segment` is the current one.
  bool IsCurrent(SegmentId segment) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return writer_ != nullptr && writer_->id() == segment;
  }

  // Refuses further appends, and makes the index durable.
  absl::Status Close() ABSL_LOCKS_EXCLUDED(mu_);

  std::string PathOf(SegmentId id) const;

 private:
  // End of an earlier segment, for the header of the next one.
  struct SegmentEnd {
    uint64_t segment_id = 0;
    uint64_t end_bytes = 0;
  };

  // Returns the chunks that are new and may be written; appends_ then holds
  // their runs.
  absl::StatusOr<std::vector<LogFrame>> Admit(std::span<chunk::Chunk> chunks)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Writes frames and adds them to the index.
  absl::Status AppendAdmitted(std::span<const LogFrame> frames)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Stamps the positions of the frames.
  absl::Status PlaceFrames(std::span<const LogFrame> frames)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Writes frames that were placed and makes them durable.
  absl::Status WriteFrames(std::span<const LogFrame> frames,
                           const AliasResolver& aliases)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // As WriteFrames, and prepares the index entries of the frames: concurrently
  // on preparer_ if that is possible and worthwhile.
  absl::StatusOr<FrameIndexer::Prepared> WriteAndPrepare(
      std::span<const LogFrame> frames, const AliasResolver& aliases)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns RESOURCE_EXHAUSTED unless the disk has room for `bytes` bytes of
  // frames and for their index entries.
  absl::Status EnsureRoom(uint64_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Resumes the index after a failed write.
  absl::Status ResumeIndex() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Returns UNAVAILABLE while frames of missing segments are not indexed.
  absl::Status CheckIsWhole() const;
  // Durably records that the current segment has frames, before any of them is
  // acknowledged.
  absl::Status RecordNewest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status BeginSegment() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Publishes that the log waits for awaited(), or that it does not.
  void PublishRefusal() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Truncates torn tails and removes files that never had a frame.
  void TidySegments(const std::vector<SegmentFile>& files,
                    const LogReplay& replay) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  const StoreOptions options_;
  Env& env_;
  const std::string segment_directory_;
  const absl::AnyInvocable<absl::Status() const> reopen_index_;

  // Thread-safe.
  IndexGate& index_;
  SegmentReader& reader_;
  DiskRoom& room_;
  AppendGate& appends_;
  StoreFigures& figures_;

  Mutex mu_;
  std::unique_ptr<SegmentWriter> writer_ ABSL_GUARDED_BY(mu_);
  SideThread preparer_ ABSL_GUARDED_BY(mu_);
  // End of the acknowledged bytes in the current segment.
  uint64_t acknowledged_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t segment_begin_boot_ns_ ABSL_GUARDED_BY(mu_) = 0;
  SegmentEnd previous_ ABSL_GUARDED_BY(mu_);
  // As stored in the index, and as it was before the current segment.
  NewestSegment newest_ ABSL_GUARDED_BY(mu_);
  NewestSegment newest_before_ ABSL_GUARDED_BY(mu_);
  // The segment of an entry whose write failed, but which may be on the disk
  // anyway; 0 if there is none.
  uint64_t doubtful_newest_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<uint64_t> awaited_ ABSL_GUARDED_BY(mu_);
  // The sizes of those of them whose files existed at the last check.
  std::map<uint64_t, uint64_t> returned_sizes_ ABSL_GUARDED_BY(mu_);
  // End of the indexed part of the log.
  LogPosition reached_ ABSL_GUARDED_BY(mu_);
  uint64_t next_segment_id_ ABSL_GUARDED_BY(mu_) = 1;
  uint64_t next_frame_sequence_ ABSL_GUARDED_BY(mu_) = 1;
  // True if the disk has enough space for preallocation.
  bool asks_ahead_ ABSL_GUARDED_BY(mu_) = true;
  // A write to the index failed; writes may fail until ResumeIndex succeeds.
  bool index_failed_ ABSL_GUARDED_BY(mu_) = false;
  // Number of consecutive failures of ResumeIndex.
  int failed_resume_count_ ABSL_GUARDED_BY(mu_) = 0;
  bool is_closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace msitd::storage
