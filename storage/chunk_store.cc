// SPDX-License-Identifier: Apache-2.0
#include "storage/chunk_store.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "protos/base/limits.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"
#include "storage/chunk_store_impl.h"
#include "storage/logger.h"

namespace msitd::storage {
namespace {

uint64_t RandomStoreId() {
  std::random_device random;
  uint64_t id = 0;
  while (id == 0) id = uint64_t{random()} << 32 | random();
  return id;
}

// A store without an index that has segments has lost its index: going on
// would take every frame for one of a deleted run.
absl::Status CheckNoSegments(Env& env, const std::string& directory) {
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentFile> files,
                         ListSegments(env, directory));
  for (const SegmentFile& file : files) {
    if (file.size_bytes == 0) continue;
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "the store has segments, but its index is gone");
  }
  return absl::OkStatus();
}

absl::Status CheckRunName(std::string_view name) {
  if (name.size() > kRunNameBytesMax) {
    return WithReason(
        MakeStatus(absl::StatusCode::kInvalidArgument,
                   "the run name is {} bytes long, at most {} may be",
                   name.size(), kRunNameBytesMax),
        "NAME_TOO_LONG");
  }
  if (name.empty() || name.find('\0') != std::string_view::npos ||
      !IsValidUtf8(name)) {
    return WithReason(
        absl::InvalidArgumentError(
            "the run name is empty, or no UTF-8 text without NUL"),
        "NAME_INVALID");
  }
  return absl::OkStatus();
}

}  // namespace

std::string SegmentDirectory(const std::string& directory) {
  return directory + "/segments";
}

std::string IndexDirectory(const std::string& directory) {
  return directory + "/index";
}

absl::StatusOr<std::unique_ptr<ChunkStore>> ChunkStore::Open(
    const StoreOptions& options, Env& env) {
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<ChunkStore>> {
    const std::string segments = SegmentDirectory(options.directory);
    MSITD_RETURN_IF_ERROR(env.CreateDirectory(options.directory));
    MSITD_ASSIGN_OR_RETURN(
        DirectoryLock lock,
        DirectoryLock::Acquire(options.directory,
                               DirectoryLock::Mode::kExclusive));
    MSITD_RETURN_IF_ERROR(env.CreateDirectory(segments));
    MSITD_RETURN_IF_ERROR(
        env.CreateDirectory(IndexDirectory(options.directory)));
    std::unique_ptr<Ballast> ballast = MakeBallast(options, env);
    MSITD_ASSIGN_OR_RETURN(std::unique_ptr<ChunkIndex> index,
                           ChunkStoreImpl::OpenIndex(options, env, *ballast,
                                                     /*creates=*/true));
    if (index->store_id() == 0) {
      MSITD_RETURN_IF_ERROR(CheckNoSegments(env, segments));
      MSITD_RETURN_IF_ERROR(index->Initialise(RandomStoreId()));
    }
    MSITD_RETURN_IF_ERROR(index->RaiseVersion());
    auto store = std::make_unique<ChunkStoreImpl>(
        options, env, std::move(lock), std::move(ballast), std::move(index));
    MSITD_RETURN_IF_ERROR(store->Recover());
    return std::unique_ptr<ChunkStore>(std::move(store));
  };
  absl::StatusOr<std::unique_ptr<ChunkStore>> store = open();
  if (!store.ok()) {
    return Annotate(store.status(), "open store " + options.directory);
  }
  return store;
}

absl::StatusOr<std::unique_ptr<ChunkIndex>> ChunkStoreImpl::OpenIndex(
    const StoreOptions& options, Env& env, Ballast& ballast, bool creates) {
  return ChunkIndex::Open(
      {.directory = IndexDirectory(options.directory),
       .write_buffer_bytes = options.index_write_buffer_bytes,
       .cache_bytes = options.index_cache_bytes,
       .creates = creates,
       .env = &env,
       .ballast = &ballast});
}

ChunkStoreImpl::ChunkStoreImpl(const StoreOptions& options, Env& env,
                               DirectoryLock lock,
                               std::unique_ptr<Ballast> ballast,
                               std::unique_ptr<ChunkIndex> index)
    : options_(options),
      env_(env),
      lock_(std::move(lock)),
      segment_directory_(SegmentDirectory(options.directory)),
      ballast_(std::move(ballast)),
      index_(std::move(index)),
      reader_(env, segment_directory_, options.direct_io),
      retainer_(std::in_place, index_.get(), env, segment_directory_),
      sharer_(std::in_place, index_.get(), env, reader_, segment_directory_),
      age_clock_(std::in_place, index_.get(), env),
      name_sweep_(std::in_place, index_.get().db(), index_.get().names()) {}

ChunkStoreImpl::~ChunkStoreImpl() = default;

std::string ChunkStoreImpl::PathOf(SegmentId id) const {
  return segment_directory_ + "/" + SegmentFileName(id);
}

absl::StatusOr<RunInfo> ChunkStoreImpl::CreateRun(const RunSpec& spec) {
  MSITD_RETURN_IF_ERROR(CheckRunName(spec.name));
  MSITD_RETURN_IF_ERROR(EnsureRoomForRecord());
  return index_->CreateRun(spec, env_.NowNs());
}

absl::StatusOr<RunInfo> ChunkStoreImpl::GetRun(std::string_view name) {
  return index_->runs().Get(name);
}

absl::StatusOr<RunInfo> ChunkStoreImpl::SealRun(std::string_view name) {
  const MutexLock lock(admit_mu_);
  MSITD_RETURN_IF_ERROR(AwaitAppendOf(name));
  return index_->SealRun(name, env_.NowNs());
}

absl::Status ChunkStoreImpl::AwaitAppendOf(std::string_view run) {
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const RunBrief info, index_->runs().Brief(run));
    if (!appending_.contains(static_cast<uint64_t>(info.id))) {
      return absl::OkStatus();
    }
    released_.Wait(admit_mu_);
  }
}

absl::StatusOr<RunInfo> ChunkStoreImpl::SetWorldSize(std::string_view name,
                                                     int32_t world_size) {
  return index_->SetWorldSize(name, world_size);
}

absl::StatusOr<RunInfo> ChunkStoreImpl::SetJob(std::string_view name,
                                               std::string_view job) {
  return index_->SetJob(name, job);
}

absl::StatusOr<std::vector<RunInfo>> ChunkStoreImpl::ListRuns(
    std::string_view after, size_t limit) {
  return index_->runs().List(after, limit);
}

absl::Status ChunkStoreImpl::DeleteRun(std::string_view name) {
  {
    const MutexLock lock(admit_mu_);
    MSITD_RETURN_IF_ERROR(AwaitAppendOf(name));
    MSITD_RETURN_IF_ERROR(index_->HideRun(name));
  }
  if (const absl::Status status = TryEmptyGoneRuns(); !status.ok()) {
    StorageLogger()->warn("the room of a deleted run stays for now: {}",
                          Message(status));
  }
  return absl::OkStatus();
}

absl::Status ChunkStoreImpl::TryEmptyGoneRuns() {
  if (!retain_mu_.TryLock()) return absl::OkStatus();
  absl::StatusOr<bool> is_emptied = false;
  if (append_mu_.TryLock()) {
    do {
      is_emptied = EmptyGoneRun();
    } while (is_emptied.value_or(false));
    append_mu_.Unlock();
    RemoveDeadSegments();
    KeepBallast();
  }
  retain_mu_.Unlock();
  return is_emptied.status();
}

absl::StatusOr<bool> ChunkStoreImpl::EmptyGoneRun() {
  const std::optional<GoneTable::Gone> gone = index_->gone().First();
  if (!gone.has_value() || gone->stage != GoneTable::Stage::kHidden) {
    return false;
  }
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentId> dead,
                         index_->EmptyRun(gone->run));
  has_dead_segments_ |= !dead.empty();
  if (writer_ != nullptr &&
      std::find(dead.begin(), dead.end(), writer_->id()) != dead.end()) {
    EndSegment();
  }
  return true;
}

void ChunkStoreImpl::RemoveDeadSegments() {
  if (!has_dead_segments_) return;
  if (const absl::Status status = TryRemoveDeadSegments(); !status.ok()) {
    StorageLogger()->warn("segments of deleted runs stay for now: {}",
                          Message(status));
  }
}

absl::Status ChunkStoreImpl::TryRemoveDeadSegments() {
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentId> dead,
                         index_->segments().Dead());
  if (dead.empty()) {
    has_dead_segments_ = false;
    return absl::OkStatus();
  }
  // Else a crash could take the log position back to before a segment that is
  // no more, and its number would be given again.
  MSITD_RETURN_IF_ERROR(index_->db().Flush());
  for (const SegmentId segment : dead) {
    reader_.Forget(segment);
    const absl::Status status = env_.Remove(PathOf(segment));
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    MSITD_RETURN_IF_ERROR(index_->segments().Bury(segment));
    const MutexLock lock(stats_mu_);
    segment_sizes_.erase(ToNumber(segment));
  }
  has_dead_segments_ = false;
  return absl::OkStatus();
}

absl::StatusOr<RunInfo> ChunkStoreImpl::SetRetention(
    std::string_view name, const RunRetention& retention) {
  return index_->SetRetention(name, retention);
}

absl::StatusOr<RunInfo> ChunkStoreImpl::SetCapturePolicy(
    std::string_view name, std::string_view policy) {
  MSITD_RETURN_IF_ERROR(EnsureRoomForRecord());
  return index_->SetCapturePolicy(name, policy);
}

absl::StatusOr<uint64_t> ChunkStoreImpl::ReportCoverage(
    std::string_view run, int32_t rank, uint64_t stream_id,
    const StreamCoverage& coverage) {
  return index_->ReportCoverage(run, rank, stream_id, coverage);
}

absl::StatusOr<std::vector<RankCoverage>> ChunkStoreImpl::GetCoverage(
    std::string_view run) {
  MSITD_ASSIGN_OR_RETURN(const RunBrief info, index_->runs().Brief(run));
  return index_->coverage().Ranks(info.id);
}

absl::StatusOr<uint64_t> ChunkStoreImpl::CommittedChunkCount(
    std::string_view run, int32_t rank, uint64_t stream_id) {
  const absl::StatusOr<RunBrief> info = index_->runs().Brief(run);
  if (!info.ok()) return 0;
  return index_->streams().ChunkCount({info->id, rank, stream_id});
}

absl::StatusOr<bool> ChunkStoreImpl::HasChunksOfOthers(std::string_view run,
                                                       int32_t rank,
                                                       uint64_t stream_id) {
  const absl::StatusOr<RunBrief> info = index_->runs().Brief(run);
  if (!info.ok()) return false;
  return index_->streams().HasOtherProcess({info->id, rank, stream_id});
}

absl::StatusOr<TensorInfo> ChunkStoreImpl::GetTensor(const TensorKey& key) {
  const absl::StatusOr<RunBrief> run = index_->runs().Brief(key.run);
  if (!run.ok()) return TensorNotFound(key);
  return index_->tensors().Get(run->id, key);
}

absl::StatusOr<std::unique_ptr<TensorScan>> ChunkStoreImpl::Scan(
    std::string_view run, TensorSelector selector, std::string_view position) {
  const IndexGate::Use index(index_);
  MSITD_ASSIGN_OR_RETURN(const RunBrief info, index->runs().Brief(run));
  MSITD_ASSIGN_OR_RETURN(
      std::unique_ptr<TensorScan> scan,
      index->tensors().Scan({info.id, std::string(run)}, selector, position));
  return index_.Hold(std::move(scan), info.id);
}

absl::StatusOr<std::vector<Coordinate>> ChunkStoreImpl::ListCoordinates(
    std::string_view run, const TensorSelector& selector) {
  MSITD_ASSIGN_OR_RETURN(const RunBrief info, index_->runs().Brief(run));
  return index_->tensors().ListCoordinates(info.id, selector);
}

absl::StatusOr<std::vector<int32_t>> ChunkStoreImpl::ListRanks(
    std::string_view run) {
  MSITD_ASSIGN_OR_RETURN(const RunBrief info, index_->runs().Brief(run));
  return index_->tensors().ListRanks(info.id);
}

absl::StatusOr<std::vector<std::string>> ChunkStoreImpl::ListPlacements(
    std::string_view run) {
  MSITD_ASSIGN_OR_RETURN(const RunBrief info, index_->runs().Brief(run));
  return index_->placements().List(info.id);
}

absl::StatusOr<uint64_t> ChunkStoreImpl::CreateComparison(
    std::string_view document, std::span<const std::string> runs) {
  MSITD_RETURN_IF_ERROR(EnsureRoomForRecord());
  return index_->CreateComparison(document, runs);
}

absl::Status ChunkStoreImpl::PutComparison(uint64_t id,
                                           std::string_view document) {
  return index_->comparisons().Put(id, document);
}

absl::StatusOr<std::string> ChunkStoreImpl::GetComparison(uint64_t id) {
  return index_->comparisons().Get(id);
}

absl::StatusOr<std::vector<std::pair<uint64_t, std::string>>>
ChunkStoreImpl::ListComparisons(uint64_t after, size_t limit) {
  return index_->comparisons().List(after, limit);
}

absl::Status ChunkStoreImpl::DeleteComparison(uint64_t id) {
  return index_->comparisons().Delete(id);
}

absl::Status ChunkStoreImpl::PutComparisonRows(
    uint64_t id, uint64_t first_row, std::span<const std::string> rows) {
  MSITD_RETURN_IF_ERROR(EnsureRoomForRecord());
  return index_->comparisons().PutRows(id, first_row, rows);
}

absl::StatusOr<std::vector<std::string>> ChunkStoreImpl::GetComparisonRows(
    uint64_t id, uint64_t first_row, size_t limit) {
  return index_->comparisons().GetRows(id, first_row, limit);
}

StoreStats ChunkStoreImpl::Stats() {
  const absl::StatusOr<uint64_t> free = env_.FreeBytes(segment_directory_);
  const size_t run_count = index_->runs().size();
  const uint64_t index_bytes = index_->db().DiskBytes();
  const MutexLock lock(stats_mu_);
  StoreStats stats = stats_;
  stats.run_count = run_count;
  stats.segment_count = segment_sizes_.size();
  for (const auto& [id, bytes] : segment_sizes_) stats.segment_bytes += bytes;
  stats.index_bytes = index_bytes;
  stats.disk_free_bytes = free.value_or(0);
  return stats;
}

absl::Status ChunkStoreImpl::Close() {
  const MutexLock lock(append_mu_);
  if (is_closed_) return absl::OkStatus();
  is_closed_ = true;
  EndSegment();
  absl::Status flushed = index_->db().Flush();
  // Which flushes, if it succeeds.
  if (!flushed.ok() && index_->db().Resume().ok()) flushed = absl::OkStatus();
  KeepBallast();
  return flushed;
}

}  // namespace msitd::storage
