// SPDX-License-Identifier: Apache-2.0
#include "storage/rebuild/recovered_store.h"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/append_gate.h"
#include "storage/disk_room.h"
#include "storage/env/ballast.h"
#include "storage/env/directory_lock.h"
#include "storage/env/scratch_directory.h"
#include "storage/index/index_gate.h"
#include "storage/indexed_attachments.h"
#include "storage/indexed_comparisons.h"
#include "storage/indexed_runs.h"
#include "storage/read/stored_run_readers.h"
#include "storage/segment/segment_reader.h"
#include "storage/segment/segment_set.h"
#include "storage/store_files.h"
#include "storage/upkeep/segment_watch.h"

namespace msitd::storage {
namespace {

constexpr char kReadOnly[] =
    "the store is open for reading only, because msitd was started with "
    "--recover";

absl::Status ReadOnlyError() {
  return ToAppendStatus(absl::UnavailableError(kReadOnly));
}

// Runs of such a store are never hidden.
void NoRunIsHidden() {}

class ReadOnlyRuns final : public Runs {
 public:
  explicit ReadOnlyRuns(Runs& runs) : runs_(runs) {}

  absl::StatusOr<RunInfo> GetRun(std::string_view name) override {
    return runs_.GetRun(name);
  }
  absl::StatusOr<std::vector<RunInfo>> ListRuns(std::string_view after,
                                                size_t limit) override {
    return runs_.ListRuns(after, limit);
  }
  absl::StatusOr<RunContinuations> GetContinuations(std::string_view name,
                                                    int32_t rank) override {
    return runs_.GetContinuations(name, rank);
  }

  absl::StatusOr<RunInfo> CreateRun(const RunSpec& /*spec*/) override {
    return ReadOnlyError();
  }
  absl::StatusOr<RunInfo> SealRun(std::string_view /*name*/) override {
    return ReadOnlyError();
  }
  absl::Status DeleteRun(std::string_view /*name*/) override {
    return ReadOnlyError();
  }
  absl::StatusOr<RunInfo> SetWorldSize(std::string_view /*name*/,
                                       int32_t /*world_size*/) override {
    return ReadOnlyError();
  }
  absl::StatusOr<RunInfo> SetJob(std::string_view /*name*/,
                                 std::string_view /*job*/) override {
    return ReadOnlyError();
  }
  absl::Status SetContinuations(std::string_view /*name*/, int32_t /*rank*/,
                                const RunContinuations& /*continuations*/,
                                bool /*has_new_job*/) override {
    return ReadOnlyError();
  }
  absl::StatusOr<RunInfo> SetRetention(
      std::string_view /*name*/, const RunRetention& /*retention*/) override {
    return ReadOnlyError();
  }
  absl::StatusOr<RunInfo> EndRestore(std::string_view /*name*/) override {
    return ReadOnlyError();
  }
  absl::StatusOr<RunInfo> SetCapturePolicy(
      std::string_view /*name*/, std::string_view /*policy*/) override {
    return ReadOnlyError();
  }

 private:
  Runs& runs_;
};

class ReadOnlyAttachments final : public Attachments {
 public:
  explicit ReadOnlyAttachments(Attachments& attachments)
      : attachments_(attachments) {}

  absl::StatusOr<AttachmentInfo> GetAttachment(std::string_view run,
                                               std::string_view name) override {
    return attachments_.GetAttachment(run, name);
  }
  absl::StatusOr<std::vector<AttachmentInfo>> ListAttachments(
      std::string_view run, std::string_view after, size_t limit) override {
    return attachments_.ListAttachments(run, after, limit);
  }
  absl::StatusOr<std::string> ReadAttachment(const AttachmentInfo& attachment,
                                             uint64_t offset,
                                             size_t limit) override {
    return attachments_.ReadAttachment(attachment, offset, limit);
  }

  absl::StatusOr<std::unique_ptr<AttachmentWriter>> Begin(
      const AttachmentSpec& /*spec*/) override {
    return ReadOnlyError();
  }
  absl::Status DeleteAttachment(std::string_view /*run*/,
                                std::string_view /*name*/) override {
    return ReadOnlyError();
  }

 private:
  Attachments& attachments_;
};

class ReadOnlyLog final : public ChunkLog {
 public:
  absl::Status Append(std::span<chunk::Chunk> /*chunks*/) override {
    return ReadOnlyError();
  }
  absl::Status Probe() override { return ReadOnlyError(); }
  absl::StatusOr<uint64_t> CommittedChunkCount(
      std::string_view /*run*/, int32_t /*rank*/,
      uint64_t /*stream_id*/) override {
    return ReadOnlyError();
  }
  absl::StatusOr<bool> HasChunksOfOthers(std::string_view /*run*/,
                                         int32_t /*rank*/,
                                         uint64_t /*stream_id*/) override {
    return ReadOnlyError();
  }
  absl::StatusOr<StreamCoverage> ReportCoverage(
      std::string_view /*run*/, int32_t /*rank*/, uint64_t /*stream_id*/,
      const StreamCoverage& /*coverage*/) override {
    return ReadOnlyError();
  }
};

class ReadOnlyStore final : public Store, private Upkeep {
 public:
  // `options.directory` is that of the store; `lock` keeps others from writing
  // to it. `index` and the ballast lie in `scratch`.
  ReadOnlyStore(const StoreOptions& options, Env& env, DirectoryLock lock,
                std::unique_ptr<ScratchDirectory> scratch,
                std::unique_ptr<ChunkIndex> index)
      : env_(env),
        lock_(std::move(lock)),
        scratch_(std::move(scratch)),
        segment_directory_(SegmentDirectory(options.directory)),
        ballast_(MakeBallast(
            {.directory = scratch_->path(),
             .index_write_buffer_bytes = options.index_write_buffer_bytes},
            env)),
        room_(env, *ballast_, scratch_->path()),
        index_(std::move(index)),
        reader_(env, segment_directory_, options.direct_io),
        appends_(index_),
        indexed_runs_(index_, env, room_, appends_, &NoRunIsHidden),
        indexed_attachments_(index_, env, room_),
        runs_(indexed_runs_),
        attachments_(indexed_attachments_),
        comparisons_(index_, room_),
        readers_(index_, reader_) {}

  // Finds out which segments are missing. Called once, first.
  absl::Status Begin(const RebuildReport& report) {
    MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentFile> files,
                           ListSegments(env_, segment_directory_));
    std::map<uint64_t, uint64_t> ends = KnownEnds(files, index_->store_id());
    MSITD_ASSIGN_OR_RETURN(const LogPosition reached, index_->Position());
    uint64_t& end = ends[reached.segment_id];
    end = std::max(end, reached.offset);
    SegmentWatch watch(index_.get(), env_, segment_directory_);
    MSITD_RETURN_IF_ERROR(watch.Begin(files, ends));
    index_->runs().AcceptUnread(report.unread_segment_count +
                                report.corrupt_frame_count);
    stats_.missing = watch.Missing();
    stats_.segment_count = files.size();
    for (const SegmentFile& file : files) {
      stats_.segment_bytes += file.disk_bytes;
    }
    stats_.torn_frame_count = report.torn_frame_count;
    stats_.corrupt_frame_count = report.corrupt_frame_count;
    stats_.refusal = kReadOnly;
    stats_.is_read_only = true;
    room_.KeepBallast();
    return absl::OkStatus();
  }

  Runs& runs() override { return runs_; }
  ChunkLog& log() override { return log_; }
  RunReaders& readers() override { return readers_; }
  Comparisons& comparisons() override { return comparisons_; }
  Attachments& attachments() override { return attachments_; }
  Upkeep& upkeep() override { return *this; }
  absl::Status Close() override { return absl::OkStatus(); }

 private:
  absl::StatusOr<RetentionStep> Retain(
      const RetentionPolicy& /*policy*/) override {
    return RetentionStep();
  }
  absl::StatusOr<ShareStep> Share() override { return ShareStep(); }
  absl::StatusOr<bool> Tidy() override { return true; }
  absl::StatusOr<VerifyStep> Verify(const VerifyPolicy& /*policy*/) override {
    return VerifyStep();
  }

  StoreStats Stats() override {
    StoreStats stats = stats_;
    const RunTable::Pinned pinned = index_->runs().CountPinned();
    stats.pinned_run_count = pinned.run_count;
    stats.pinned_bytes = pinned.kept_bytes;
    stats.run_count = index_->runs().size();
    stats.index_bytes = index_->db().DiskBytes();
    stats.comparison_disk_bytes = index_->db().DiskBytes(Table::kComparison);
    stats.compaction = index_->db().Compactions();
    stats.disk_free_bytes = env_.FreeBytes(segment_directory_).value_or(0);
    return stats;
  }

  Env& env_;
  const DirectoryLock lock_;
  const std::unique_ptr<ScratchDirectory> scratch_;  // Outlives the index.
  const std::string segment_directory_;
  const std::unique_ptr<Ballast> ballast_;
  DiskRoom room_;
  IndexGate index_;
  SegmentReader reader_;
  AppendGate appends_;
  IndexedRuns indexed_runs_;
  IndexedAttachments indexed_attachments_;
  ReadOnlyRuns runs_;
  ReadOnlyLog log_;
  ReadOnlyAttachments attachments_;
  IndexedComparisons comparisons_;
  StoredRunReaders readers_;
  StoreStats stats_;  // Only Begin writes it.
};

absl::StatusOr<RecoveredStore> Open(const StoreOptions& options,
                                    const std::string& parent, Env& env) {
  // A rebuild takes another one for itself.
  MSITD_ASSIGN_OR_RETURN(
      DirectoryLock lock,
      DirectoryLock::Acquire(options.directory, DirectoryLock::Mode::kShared));
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<ScratchDirectory> scratch,
                         ScratchDirectory::Make(parent, "msitd-recover-"));
  const std::string index = IndexDirectory(scratch->path());
  RecoveredStore out;
  MSITD_ASSIGN_OR_RETURN(
      out.report, RebuildIndex({.directory = options.directory,
                                .target = index,
                                .checks_frames = false},
                               env, [](const StoreProblem& /*problem*/) {}));
  MSITD_ASSIGN_OR_RETURN(
      std::unique_ptr<ChunkIndex> opened,
      ChunkIndex::Open({.directory = index,
                        .write_buffer_bytes = options.index_write_buffer_bytes,
                        .cache_bytes = options.index_cache_bytes,
                        .creates = false,
                        .env = &env}));
  auto store = std::make_unique<ReadOnlyStore>(
      options, env, std::move(lock), std::move(scratch), std::move(opened));
  MSITD_RETURN_IF_ERROR(store->Begin(out.report));
  out.store = std::move(store);
  return out;
}

}  // namespace

absl::StatusOr<RecoveredStore> OpenRecovered(const StoreOptions& options,
                                             const std::string& parent,
                                             Env& env) {
  absl::StatusOr<RecoveredStore> out = Open(options, parent, env);
  if (out.ok()) return out;
  return Annotate(out.status(), "open store " + options.directory +
                                    " for reading only, with a temporary "
                                    "index in " +
                                    parent);
}

}  // namespace msitd::storage
