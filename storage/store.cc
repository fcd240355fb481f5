// SPDX-License-Identifier: Apache-2.0
#include "storage/store.h"

#include <algorithm>
#include <optional>
#include <random>
#include <utility>

#include "protos/status/status.h"
#include "storage/env/logger.h"
#include "storage/store_impl.h"
#include "storage/whole_index.h"

namespace msitd::storage {
namespace {

uint64_t RandomStoreId() {
  std::random_device random;
  uint64_t id = 0;
  while (id == 0) id = uint64_t{random()} << 32 | random();
  return id;
}

// A store that has segments but no index has lost its index. Every frame would
// be treated as one of a deleted run, so the store is refused.
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

// Appends instructions on how to repair a damaged index.
absl::Status WithRemedy(const absl::Status& status,
                        const std::string& directory) {
  // RocksDB does not classify a missing file as corruption.
  const bool is_missing_file =
      absl::IsUnavailable(status) &&
      status.message().find("No such file") != std::string_view::npos;
  if (!absl::IsDataLoss(status) && !is_missing_file) return status;
  return absl::Status(
      status.code(),
      fmt::format("{}. To make the index again from the segments, run: "
                  "msitd-inspect rebuild --data-dir {}. To read the store "
                  "first and change nothing, start msitd with --recover",
                  Message(status), directory));
}

}  // namespace

std::string SegmentDirectory(const std::string& directory) {
  return directory + "/segments";
}

std::string IndexDirectory(const std::string& directory) {
  return directory + "/index";
}

// When RocksDB opens an index for writing, it removes files that the index does
// not know. If the index is not in the state in which it was left, a rebuild
// may need these files.
absl::Status CheckIndex(const StoreOptions& options, Env& env) {
  const std::string index = IndexDirectory(options.directory);
  const std::string segments = SegmentDirectory(options.directory);
  MSITD_ASSIGN_OR_RETURN(const std::vector<std::string> names, env.List(index));
  if (std::find(names.begin(), names.end(), "CURRENT") == names.end()) {
    return CheckNoSegments(env, segments);
  }
  const absl::StatusOr<std::unique_ptr<ChunkIndex>> opened =
      ChunkIndex::Open({.directory = index, .read_only = true, .env = &env});
  if (!opened.ok()) {
    // Opening it for writing completes an index whose creation was interrupted
    // by a crash.
    const bool is_half_made = IndexDb::LacksTables(index).value_or(false);
    return is_half_made ? CheckNoSegments(env, segments) : opened.status();
  }
  if ((*opened)->store_id() == 0) return CheckNoSegments(env, segments);
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentFile> files,
                         ListSegments(env, segments));
  return CheckIndexIsWhole(**opened, env, files);
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(const StoreOptions& options,
                                                   Env& env) {
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<Store>> {
    const std::string segments = SegmentDirectory(options.directory);
    MSITD_RETURN_IF_ERROR(env.CreateDirectory(options.directory));
    MSITD_ASSIGN_OR_RETURN(
        DirectoryLock lock,
        DirectoryLock::Acquire(options.directory,
                               DirectoryLock::Mode::kExclusive));
    MSITD_RETURN_IF_ERROR(env.CreateDirectory(segments));
    MSITD_RETURN_IF_ERROR(
        env.CreateDirectory(IndexDirectory(options.directory)));
    MSITD_RETURN_IF_ERROR(CheckIndex(options, env));
    std::unique_ptr<Ballast> ballast = MakeBallast(options, env);
    MSITD_ASSIGN_OR_RETURN(std::unique_ptr<ChunkIndex> index,
                           OpenIndex(options, env, *ballast, /*creates=*/true));
    if (index->store_id() == 0) {
      MSITD_RETURN_IF_ERROR(CheckNoSegments(env, segments));
      MSITD_RETURN_IF_ERROR(index->Initialise(RandomStoreId()));
    }
    MSITD_RETURN_IF_ERROR(index->RaiseVersion());
    auto store = std::make_unique<StoreImpl>(
        options, env, std::move(lock), std::move(ballast), std::move(index));
    MSITD_RETURN_IF_ERROR(store->Recover());
    return std::unique_ptr<Store>(std::move(store));
  };
  absl::StatusOr<std::unique_ptr<Store>> store = open();
  if (!store.ok()) {
    return Annotate(WithRemedy(store.status(), options.directory),
                    "open store " + options.directory);
  }
  return store;
}

absl::StatusOr<std::unique_ptr<ChunkIndex>> OpenIndex(
    const StoreOptions& options, Env& env, Ballast& ballast, bool creates) {
  return ChunkIndex::Open(
      {.directory = IndexDirectory(options.directory),
       .write_buffer_bytes = options.index_write_buffer_bytes,
       .cache_bytes = options.index_cache_bytes,
       .creates = creates,
       .env = &env,
       .ballast = &ballast});
}

StoreImpl::StoreImpl(const StoreOptions& options, Env& env, DirectoryLock lock,
                     std::unique_ptr<Ballast> ballast,
                     std::unique_ptr<ChunkIndex> index)
    : options_(options),
      env_(env),
      lock_(std::move(lock)),
      segment_directory_(SegmentDirectory(options.directory)),
      ballast_(std::move(ballast)),
      index_(std::move(index)),
      reader_(env, segment_directory_, options.direct_io),
      room_(env, *ballast_, segment_directory_),
      appends_(index_),
      runs_(index_, env, room_, appends_, [this] { TryEmptyGoneRuns(); }),
      comparisons_(index_, room_),
      attachments_(index_, env, room_),
      readers_(index_, reader_),
      retainer_(std::in_place, index_.get(), env, segment_directory_),
      sharer_(std::in_place, index_.get(), env, reader_, segment_directory_),
      verifier_(std::in_place, index_.get(), env, segment_directory_,
                options.direct_io),
      segment_watch_(std::in_place, index_.get(), env, segment_directory_),
      age_clock_(std::in_place, index_.get(), env),
      name_sweep_(std::in_place, index_.get().db(), index_.get().names()) {}

StoreImpl::~StoreImpl() = default;

std::string StoreImpl::PathOf(SegmentId id) const {
  return segment_directory_ + "/" + SegmentFileName(id);
}

void StoreImpl::TryEmptyGoneRuns() {
  if (!retain_mu_.TryLock()) return;
  absl::StatusOr<bool> is_emptied = false;
  if (append_mu_.TryLock()) {
    do {
      is_emptied = EmptyGoneRun();
    } while (is_emptied.value_or(false));
    const bool may_remove = has_dead_segments_ && MayRemoveSegments();
    append_mu_.Unlock();
    if (may_remove) RemoveDeadSegments();
    room_.KeepBallast();
  }
  retain_mu_.Unlock();
  if (!is_emptied.ok()) {
    StorageLogger()->warn("the room of a deleted run stays for now: {}",
                          Message(is_emptied.status()));
  }
}

absl::StatusOr<bool> StoreImpl::EmptyGoneRun() {
  // Segments that only this run seems to use may have frames of others.
  if (!awaited_.empty()) return false;
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

void StoreImpl::RemoveDeadSegments() {
  if (!has_dead_segments_) return;
  if (const absl::Status status = TryRemoveDeadSegments(); !status.ok()) {
    StorageLogger()->warn("segments of deleted runs stay for now: {}",
                          Message(status));
  }
}

absl::Status StoreImpl::TryRemoveDeadSegments() {
  MSITD_ASSIGN_OR_RETURN(const std::vector<SegmentId> dead,
                         index_->segments().Dead());
  if (dead.empty()) {
    has_dead_segments_ = false;
    return absl::OkStatus();
  }
  // Otherwise a crash could move the log position back to before a segment
  // whose file was removed, and the number of that segment would be reused.
  MSITD_RETURN_IF_ERROR(index_->db().Flush());
  for (const SegmentId segment : dead) {
    reader_.Forget(segment);
    const absl::Status status = env_.Remove(PathOf(segment));
    if (!status.ok() && !absl::IsNotFound(status)) return status;
    MSITD_RETURN_IF_ERROR(index_->segments().ForgetDead(segment));
    const MutexLock lock(stats_mu_);
    segment_sizes_.erase(ToNumber(segment));
  }
  has_dead_segments_ = false;
  return absl::OkStatus();
}

StoreStats StoreImpl::Stats() {
  const absl::StatusOr<uint64_t> free = env_.FreeBytes(segment_directory_);
  const size_t run_count = index_->runs().size();
  const RunTable::Pinned pinned = index_->runs().CountPinned();
  const uint64_t index_bytes = index_->db().DiskBytes();
  const uint64_t comparison_bytes = index_->db().DiskBytes(Table::kComparison);
  const CompactionStats compaction = index_->db().Compactions();
  const MutexLock lock(stats_mu_);
  StoreStats stats = stats_;
  stats.pinned_run_count = pinned.run_count;
  stats.pinned_bytes = pinned.kept_bytes;
  stats.compaction = compaction;
  stats.run_count = run_count;
  stats.segment_count = segment_sizes_.size();
  for (const auto& [id, bytes] : segment_sizes_) stats.segment_bytes += bytes;
  stats.index_bytes = index_bytes;
  stats.comparison_disk_bytes = comparison_bytes;
  stats.disk_free_bytes = free.value_or(0);
  return stats;
}

absl::Status StoreImpl::Close() {
  const MutexLock lock(append_mu_);
  if (is_closed_) return absl::OkStatus();
  is_closed_ = true;
  EndSegment();
  absl::Status flushed = index_->db().Flush();
  // Resume also flushes if it succeeds.
  if (!flushed.ok() && index_->db().Resume().ok()) flushed = absl::OkStatus();
  if (flushed.ok() && awaited_.empty() && !newest_.is_indexed) {
    const NewestSegment newest{newest_.segment_id, true};
    flushed = index_->SetNewest(newest);
    if (flushed.ok()) newest_ = newest;
  }
  room_.KeepBallast();
  return flushed;
}

}  // namespace msitd::storage
