// SPDX-License-Identifier: Apache-2.0
#include "storage/index/chunk_index.h"

#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/write_batch.h>

#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "protos/base/byte_codec.h"
#include "protos/status/status.h"
#include "storage/index/db/index_key.h"
#include "storage/index/db/log_position.h"

namespace msitd::storage {
namespace {

constexpr std::string_view kStoreKey = "store";
constexpr std::string_view kClockKey = "clock";
constexpr std::string_view kNameSweepKey = "name_sweep";
// Keys store the id of a run in four bytes.
constexpr uint64_t kRunIdMax = std::numeric_limits<uint32_t>::max() - 1;

}  // namespace

ChunkIndex::ChunkIndex(std::unique_ptr<IndexDb> db)
    : db_(std::move(db)),
      names_(*db_),
      runs_(*db_),
      gone_(*db_),
      streams_(*db_),
      coverage_(*db_),
      continuations_(*db_),
      segments_(*db_),
      placements_(*db_, names_),
      expiry_(*db_),
      shared_(*db_),
      verify_(*db_),
      comparisons_(*db_),
      attachments_(*db_),
      frames_(*db_, names_, runs_, streams_, segments_, placements_, coverage_),
      tensors_(*db_, names_, expiry_) {}

absl::StatusOr<std::unique_ptr<ChunkIndex>> ChunkIndex::Open(
    const IndexDb::Options& options) {
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<IndexDb> db, IndexDb::Open(options));
  std::unique_ptr<ChunkIndex> index(new ChunkIndex(std::move(db)));
  MSITD_RETURN_IF_ERROR(index->Load());
  return index;
}

absl::Status ChunkIndex::Load() {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> store,
                         db_->Get(Table::kMeta, kStoreKey));
  if (!store.has_value()) return absl::OkStatus();
  if (!DecodeStoreId(*store, store_id_, has_newest_version_)) {
    const int version = NewerStoreVersion(*store);
    if (version == 0) {
      return absl::DataLossError(
          "the index is damaged: its version cannot be read");
    }
    return MakeStatus(absl::StatusCode::kFailedPrecondition,
                      "the store is of version {}, written by a newer msitd; "
                      "this program reads versions up to {}: install the newer "
                      "msitd again",
                      version, StoreVersion());
  }
  MSITD_RETURN_IF_ERROR(names_.Load());
  MSITD_RETURN_IF_ERROR(runs_.Load());
  MSITD_RETURN_IF_ERROR(gone_.Load());
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> sweep,
                         db_->Get(Table::kMeta, kNameSweepKey));
  {
    const MutexLock lock(run_change_mu_);
    is_name_sweep_due_ = sweep.has_value();
  }
  MSITD_RETURN_IF_ERROR(expiry_.Load());
  MSITD_RETURN_IF_ERROR(shared_.Load());
  MSITD_RETURN_IF_ERROR(attachments_.Load());
  for (const RunBrief& run : runs_.Briefs()) {
    runs_.AcceptExpired(run.id, expiry_.ExpiredBytes(run.id));
    MSITD_ASSIGN_OR_RETURN(const std::vector<RankCoverage> ranks,
                           coverage_.Ranks(run.id));
    for (const RankCoverage& rank : ranks) {
      runs_.AcceptLoss(run.id, rank.total);
    }
  }
  return absl::OkStatus();
}

absl::Status ChunkIndex::Initialise(uint64_t store_id) {
  rocksdb::WriteBatch batch;
  db_->Put(batch, Table::kMeta, kStoreKey, EncodeStoreId(store_id));
  MSITD_RETURN_IF_ERROR(db_->WriteDurable(batch));
  store_id_ = store_id;
  has_newest_version_ = true;
  return absl::OkStatus();
}

absl::Status ChunkIndex::RaiseVersion() {
  return has_newest_version_ ? absl::OkStatus() : Initialise(store_id_);
}

absl::StatusOr<uint64_t> ChunkIndex::NextRunId() {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> next,
                         db_->Get(Table::kMeta, kNextRunIdKey));
  if (!next.has_value()) return 1;
  if (next->size() != 8) return IndexCorrupt("default");
  return GetBigEndian(next->data(), 8);
}

absl::StatusOr<RunInfo> ChunkIndex::CreateRun(const RunSpec& spec,
                                              int64_t now_ns) {
  const MutexLock lock(run_change_mu_);
  if (runs_.Brief(spec.name).ok()) {
    return WithReason(MakeStatus(absl::StatusCode::kAlreadyExists,
                                 "there is a run {}", spec.name),
                      ErrorReason::kRunExists);
  }
  RunInfo run;
  run.spec = spec;
  run.create_time_ns = now_ns;
  MSITD_RETURN_IF_ERROR(runs_.CheckRoomFor(run));
  MSITD_ASSIGN_OR_RETURN(const uint64_t id, NextRunId());
  if (id > kRunIdMax) {
    return absl::ResourceExhaustedError("the store has no more run ids");
  }
  run.id = RunId{id};
  rocksdb::WriteBatch batch;
  runs_.AppendTo(batch, run);
  db_->Put(batch, Table::kMeta, kNextRunIdKey, BigEndianKey(id + 1));
  MSITD_RETURN_IF_ERROR(db_->WriteDurable(batch));
  runs_.Accept(run);
  return run;
}

absl::StatusOr<RunInfo> ChunkIndex::SealRun(std::string_view name,
                                            int64_t now_ns) {
  const MutexLock lock(run_change_mu_);
  MSITD_ASSIGN_OR_RETURN(RunInfo run, runs_.Get(name));
  if (run.sealed) return run;
  run.sealed = true;
  run.seal_time_ns = now_ns;
  rocksdb::WriteBatch batch;
  runs_.AppendTo(batch, run);
  streams_.AppendRemovalTo(batch, run.id);
  MSITD_RETURN_IF_ERROR(db_->WriteDurable(batch));
  runs_.Accept(run);
  return run;
}

absl::StatusOr<RunInfo> ChunkIndex::StoreRun(RunInfo run) {
  rocksdb::WriteBatch batch;
  runs_.AppendTo(batch, run);
  MSITD_RETURN_IF_ERROR(db_->WriteDurable(batch));
  runs_.Accept(run);
  return run;
}

absl::StatusOr<RunInfo> ChunkIndex::SetWorldSize(std::string_view name,
                                                 int32_t world_size) {
  const MutexLock lock(run_change_mu_);
  MSITD_ASSIGN_OR_RETURN(RunInfo run, runs_.Get(name));
  if (run.spec.world_size == world_size) return run;
  if (run.spec.world_size != 0) {
    return WithReason(MakeStatus(absl::StatusCode::kAlreadyExists,
                                 "run {} has a world size of {}, not {}", name,
                                 run.spec.world_size, world_size),
                      ErrorReason::kRunExists);
  }
  run.spec.world_size = world_size;
  return StoreRun(std::move(run));
}

absl::StatusOr<RunInfo> ChunkIndex::SetJob(std::string_view name,
                                           std::string_view job) {
  const MutexLock lock(run_change_mu_);
  MSITD_ASSIGN_OR_RETURN(RunInfo run, runs_.Get(name));
  if (run.spec.job == job) return run;
  run.spec.job = job;
  return StoreRun(std::move(run));
}

absl::StatusOr<RunContinuations> ChunkIndex::GetContinuations(
    std::string_view name, int32_t rank) {
  MSITD_ASSIGN_OR_RETURN(const RunBrief run, runs_.Brief(name));
  return continuations_.Get(run.id, rank);
}

absl::Status ChunkIndex::SetContinuations(std::string_view name, int32_t rank,
                                          const RunContinuations& continuations,
                                          bool has_new_job) {
  const MutexLock lock(run_change_mu_);
  MSITD_ASSIGN_OR_RETURN(const RunBrief run, runs_.Brief(name));
  rocksdb::WriteBatch batch;
  if (has_new_job) continuations_.AppendTo(batch, run.id, continuations.jobs);
  if (continuations.rank.has_value()) {
    continuations_.AppendTo(batch, run.id, rank, *continuations.rank);
  }
  return db_->WriteDurable(batch);
}

absl::StatusOr<RunInfo> ChunkIndex::EndRestore(std::string_view name) {
  const MutexLock lock(run_change_mu_);
  MSITD_ASSIGN_OR_RETURN(RunInfo run, runs_.Get(name));
  if (!run.spec.restoring) return run;
  run.spec.restoring = false;
  return StoreRun(std::move(run));
}

absl::StatusOr<RunInfo> ChunkIndex::SetRetention(
    std::string_view name, const RunRetention& retention) {
  const MutexLock lock(run_change_mu_);
  MSITD_ASSIGN_OR_RETURN(RunInfo run, runs_.Get(name));
  if (run.retention == retention) return run;
  run.retention = retention;
  return StoreRun(std::move(run));
}

absl::StatusOr<RunInfo> ChunkIndex::SetCapturePolicy(std::string_view name,
                                                     std::string_view policy) {
  const MutexLock lock(run_change_mu_);
  MSITD_ASSIGN_OR_RETURN(RunInfo run, runs_.Get(name));
  run.capture_policy = policy;
  MSITD_RETURN_IF_ERROR(runs_.CheckRoomFor(run));
  return StoreRun(std::move(run));
}

absl::Status ChunkIndex::Expire(SegmentId segment, RunId run,
                                const ExpiryMark& mark) {
  rocksdb::WriteBatch batch;
  expiry_.AppendTo(batch, segment, run, mark);
  MSITD_RETURN_IF_ERROR(db_->WriteDurable(batch));
  expiry_.Accept(segment, run, mark);
  runs_.AcceptExpired(run, expiry_.ExpiredBytes(run));
  return absl::OkStatus();
}

absl::Status ChunkIndex::Share(const Sharing& sharing) {
  rocksdb::WriteBatch batch;
  for (const auto& [bytes, place] : sharing.places) {
    shared_.AppendTo(batch, bytes, place);
  }
  if (!sharing.places.empty()) {
    shared_.AppendUnfreedTo(batch, sharing.unfreed);
  }
  shared_.AppendLookedAtTo(batch, sharing.looked_at_end);
  MSITD_RETURN_IF_ERROR(db_->WriteDurable(batch));
  for (const auto& [bytes, place] : sharing.places) shared_.Accept(bytes.run);
  return absl::OkStatus();
}

absl::StatusOr<StreamCoverage> ChunkIndex::ReportCoverage(
    std::string_view name, int32_t rank, uint64_t stream_id,
    const StreamCoverage& coverage) {
  const MutexLock lock(run_change_mu_);
  MSITD_ASSIGN_OR_RETURN(const RunBrief run, runs_.Brief(name));
  const StreamKey stream{run.id, rank, stream_id};
  MSITD_ASSIGN_OR_RETURN(const StreamCoverage before, coverage_.Get(stream));
  const StreamCoverage after = Newer(before, coverage);
  rocksdb::WriteBatch batch;
  coverage_.AppendTo(batch, stream, after);
  MSITD_RETURN_IF_ERROR(db_->WriteLogged(batch));
  const StreamCoverage rise = Rise(before, after);
  runs_.AcceptLoss(run.id, rise);
  return rise;
}

absl::Status ChunkIndex::HideRun(std::string_view name) {
  const MutexLock lock(run_change_mu_);
  MSITD_ASSIGN_OR_RETURN(const RunBrief run, runs_.Brief(name));
  const GoneTable::Gone gone{run.id, GoneTable::Stage::kHidden};
  rocksdb::WriteBatch batch;
  runs_.AppendHidingTo(batch, name);
  gone_.AppendTo(batch, gone);
  MSITD_RETURN_IF_ERROR(db_->WriteDurable(batch));
  gone_.Accept(gone);
  runs_.AcceptRemoval(name);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<SegmentId>> ChunkIndex::EmptyRun(RunId run) {
  const MutexLock lock(run_change_mu_);
  const auto id = static_cast<uint64_t>(run);
  rocksdb::WriteBatch batch;
  runs_.AppendRemovalTo(batch, run);
  streams_.AppendRemovalTo(batch, run);
  coverage_.AppendRemovalTo(batch, run);
  continuations_.AppendRemovalTo(batch, run);
  placements_.AppendRemovalTo(batch, run);
  MSITD_ASSIGN_OR_RETURN(std::vector<SegmentId> dead,
                         segments_.AppendRemovalTo(batch, run));
  expiry_.AppendRemovalTo(batch, run);
  shared_.AppendRemovalTo(batch, run);
  MSITD_ASSIGN_OR_RETURN(const AttachmentTable::Removal attachments,
                         attachments_.AppendRemovalTo(batch, run));
  db_->DeleteRange(batch, Table::kTensor, TensorRunPrefix(id),
                   TensorRunPrefix(id + 1));
  const GoneTable::Gone gone{run, GoneTable::Stage::kEmptied};
  gone_.AppendTo(batch, gone);
  db_->Put(batch, Table::kMeta, kNameSweepKey, "");
  MSITD_RETURN_IF_ERROR(db_->WriteDurable(batch));
  gone_.Accept(gone);
  expiry_.AcceptRemoval(run);
  shared_.AcceptRemoval(run);
  attachments_.AcceptRemoval(attachments);
  is_name_sweep_due_ = true;
  ++gone_count_;
  return dead;
}

absl::StatusOr<uint64_t> ChunkIndex::CreateComparison(
    std::string_view document, std::span<const std::string> runs,
    uint64_t wanted) {
  const MutexLock lock(run_change_mu_);
  std::vector<RunId> ids;
  for (const std::string& name : runs) {
    MSITD_ASSIGN_OR_RETURN(const RunBrief run, runs_.Brief(name));
    ids.push_back(run.id);
  }
  return comparisons_.Create(document, ids, wanted);
}

absl::Status ChunkIndex::CommitAttachment(RunId run,
                                          const AttachmentInfo& attachment,
                                          bool replaces) {
  const MutexLock lock(run_change_mu_);
  MSITD_RETURN_IF_ERROR(runs_.BriefById(run).status());
  return attachments_.Commit(run, attachment, replaces);
}

absl::Status ChunkIndex::DeleteAttachment(std::string_view run,
                                          std::string_view name) {
  const MutexLock lock(run_change_mu_);
  MSITD_ASSIGN_OR_RETURN(const RunBrief brief, runs_.Brief(run));
  return attachments_.Delete(brief.id, name);
}

absl::StatusOr<bool> ChunkIndex::TidyGoneRuns() {
  const std::vector<RunId> gone = gone_.Emptied();
  if (gone.empty()) return comparisons_.GiveRoomBack();
  MSITD_ASSIGN_OR_RETURN(const std::optional<uint64_t> comparison,
                         comparisons_.FirstOf(gone.front()));
  if (comparison.has_value()) {
    MSITD_RETURN_IF_ERROR(comparisons_.Leave(gone.front(), *comparison));
    return false;
  }
  // Emptied runs without an existing run between them are compacted together,
  // because a single range of keys is one operation.
  std::set<RunId> others;
  for (const RunBrief& run : runs_.Briefs()) others.insert(run.id);
  const auto next = others.upper_bound(gone.front());
  std::vector<RunId> together = {gone.front()};
  for (size_t i = 1; i < gone.size(); ++i) {
    if (next != others.end() && *next < gone[i]) break;
    MSITD_ASSIGN_OR_RETURN(const std::optional<uint64_t> its_own,
                           comparisons_.FirstOf(gone[i]));
    if (its_own.has_value()) break;
    together.push_back(gone[i]);
  }
  MSITD_RETURN_IF_ERROR(GiveRoomBack(together.front(), together.back()));
  rocksdb::WriteBatch batch;
  for (const RunId run : together) gone_.AppendRemovalTo(batch, run);
  MSITD_RETURN_IF_ERROR(db_->WriteLogged(batch));
  for (const RunId run : together) gone_.AcceptRemoval(run);
  return false;
}

absl::Status ChunkIndex::GiveRoomBack(RunId first, RunId last) {
  const auto begin = static_cast<uint64_t>(first);
  const auto end = static_cast<uint64_t>(last) + 1;
  struct Range {
    Table table;
    std::string begin;
    std::string end;
  };
  std::vector<Range> ranges = {
      {Table::kTensor, TensorRunPrefix(begin), TensorRunPrefix(end)},
      {Table::kStream, BigEndianKey(begin), BigEndianKey(end)}};
  // The kinds of keys of each run that docs/format/index.md lists.
  for (const char tag : {'c', 's', 't', 'p', 'j', 'k'}) {
    ranges.push_back({Table::kRun, RunPrefix(tag, begin), RunPrefix(tag, end)});
  }
  for (const char tag : {'s', 'x'}) {
    ranges.push_back(
        {Table::kSegment, RunPrefix(tag, begin), RunPrefix(tag, end)});
  }
  for (const Range& range : ranges) {
    MSITD_RETURN_IF_ERROR(
        db_->GiveRoomBack(range.table, range.begin, range.end));
  }
  return absl::OkStatus();
}

bool ChunkIndex::IsNameSweepDue() {
  const MutexLock lock(run_change_mu_);
  return is_name_sweep_due_;
}

uint64_t ChunkIndex::gone_count() {
  const MutexLock lock(run_change_mu_);
  return gone_count_;
}

absl::Status ChunkIndex::ForgetNameSweep(uint64_t gone_count) {
  {
    const MutexLock lock(run_change_mu_);
    if (gone_count != gone_count_) return absl::OkStatus();
    // Not logged, like the removal of names, so that a crash undoes both or
    // neither.
    rocksdb::WriteBatch batch;
    db_->Delete(batch, Table::kMeta, kNameSweepKey);
    MSITD_RETURN_IF_ERROR(db_->WriteUnlogged(batch));
    is_name_sweep_due_ = false;
  }
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  return ToStatus(db_->db().CompactRange(options, db_->table(Table::kName),
                                         nullptr, nullptr),
                  "compact names");
}

absl::StatusOr<std::optional<ClockMark>> ChunkIndex::Clock() {
  MSITD_ASSIGN_OR_RETURN(const std::optional<std::string> value,
                         db_->Get(Table::kMeta, kClockKey));
  std::optional<ClockMark> mark;
  if (value.has_value() && !DecodeClockMark(*value, mark.emplace())) {
    return IndexCorrupt("default");
  }
  return mark;
}

absl::Status ChunkIndex::SetClock(const ClockMark& mark, bool durably) {
  rocksdb::WriteBatch batch;
  db_->Put(batch, Table::kMeta, kClockKey, EncodeClockMark(mark));
  return durably ? db_->WriteDurable(batch) : db_->WriteLogged(batch);
}

absl::StatusOr<LogPosition> ChunkIndex::Position() {
  return LoadPosition(*db_);
}

absl::Status ChunkIndex::Advance(const LogPosition& position) {
  rocksdb::WriteBatch batch;
  AppendPositionTo(batch, *db_, position);
  return db_->WriteUnlogged(batch);
}

absl::StatusOr<NewestSegment> ChunkIndex::Newest() {
  return LoadNewestSegment(*db_);
}

absl::Status ChunkIndex::SetNewest(const NewestSegment& newest) {
  return StoreNewestSegment(*db_, newest);
}

}  // namespace msitd::storage
