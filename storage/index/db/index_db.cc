// SPDX-License-Identifier: Apache-2.0
#include "storage/index/db/index_db.h"

#include <rocksdb/cache.h>
#include <rocksdb/convenience.h>
#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/listener.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "protos/base/check.h"
#include "protos/status/status.h"
#include "storage/index/db/index_file_system.h"
#include "storage/index/db/index_logger.h"

namespace msitd::storage {
namespace {

constexpr const char* kTableNames[kTableCount] = {
    "default", "run", "name", "tensor", "comparison", "segment", "stream"};

constexpr int kOpenFilesMax = 512;
constexpr uint64_t kManifestBytesMax = uint64_t{4} << 20;
constexpr int kBackgroundJobs = 2;
// Number of files waiting for compaction at which writes are slowed down, and
// at which they are stopped.
constexpr int kLevel0FilesSlow = 20;
constexpr int kLevel0FilesMax = 1 << 16;
// For 1 % of the lookups of missing keys, a block is read unnecessarily.
constexpr int kBloomBitsPerKey = 10;
constexpr size_t kBlockBytes = 16 << 10;

rocksdb::ColumnFamilyOptions TableOptions(
    const IndexDb::Options& options,
    const std::shared_ptr<rocksdb::Cache>& cache) {
  rocksdb::BlockBasedTableOptions block;
  block.block_cache = cache;
  block.block_size = kBlockBytes;
  block.filter_policy.reset(rocksdb::NewBloomFilterPolicy(kBloomBitsPerKey));
  block.format_version = 5;
  // Filters and indexes are partitioned and kept in the cache, so that their
  // memory is bounded regardless of the number of tensors.
  block.index_type = rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
  block.partition_filters = true;
  block.cache_index_and_filter_blocks = true;
  block.pin_l0_filter_and_index_blocks_in_cache = true;
  block.pin_top_level_index_and_filter = true;

  rocksdb::ColumnFamilyOptions table;
  table.table_factory.reset(rocksdb::NewBlockBasedTableFactory(block));
  table.write_buffer_size = options.write_buffer_bytes;
  // Never stops writes for a compaction: the disk may have no room for
  // compactions for a long time, and a waiting write holds locks. See
  // IsCongested.
  table.level0_slowdown_writes_trigger = kLevel0FilesSlow;
  table.level0_stop_writes_trigger = kLevel0FilesMax;
  table.hard_pending_compaction_bytes_limit = 0;
  const auto supported = rocksdb::GetSupportedCompressions();
  const bool has_lz4 = std::find(supported.begin(), supported.end(),
                                 rocksdb::kLZ4Compression) != supported.end();
  table.compression =
      has_lz4 ? rocksdb::kLZ4Compression : rocksdb::kNoCompression;
  return table;
}

rocksdb::DBOptions DatabaseOptions(const IndexDb::Options& options) {
  rocksdb::DBOptions database;
  database.create_if_missing = options.creates;
  database.create_missing_column_families = true;
  // Batches without a log span several tables and must survive completely or
  // not at all.
  database.atomic_flush = true;
  database.avoid_flush_during_shutdown = true;
  database.db_write_buffer_size = options.write_buffer_bytes;
  // Open files cannot be removed by others.
  database.max_open_files = options.opens_all_tables ? -1 : kOpenFilesMax;
  // A live copy copies the manifest, so it must stay small.
  database.max_manifest_file_size = kManifestBytesMax;
  database.max_background_jobs = kBackgroundJobs;
  database.max_subcompactions = 1;
  database.listeners.push_back(MakeCompactionListener());
  database.info_log = MakeIndexLogger();
  // Preallocated space would be unavailable elsewhere when the disk is nearly
  // full.
  database.allow_fallocate = false;
  if (options.refuses_log_damage) {
    database.wal_recovery_mode =
        rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  }
  return database;
}

// Records every error, regardless of which call returns it.
class FailureListener final : public rocksdb::EventListener {
 public:
  explicit FailureListener(std::atomic<bool>& has_failed)
      : has_failed_(has_failed) {}

  void OnBackgroundError(rocksdb::BackgroundErrorReason /*reason*/,
                         rocksdb::Status* /*error*/) override {
    has_failed_ = true;
  }

 private:
  std::atomic<bool>& has_failed_;
};

absl::Status Ended() {
  return absl::UnavailableError("the index could not be opened again yet");
}

}  // namespace

absl::Status ToStatus(const rocksdb::Status& status, std::string_view context) {
  if (status.ok()) return absl::OkStatus();
  absl::StatusCode code = absl::StatusCode::kUnavailable;
  if (status.IsCorruption()) code = absl::StatusCode::kDataLoss;
  if (status.IsNoSpace()) code = absl::StatusCode::kResourceExhausted;
  return MakeStatus(code, "{}: {}", context, status.ToString());
}

absl::Status IndexCorrupt(std::string_view table) {
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "index: an entry of table {} cannot be read", table);
}

std::string_view TableName(Table table) {
  return kTableNames[static_cast<size_t>(table)];
}

class IndexDb::CompactionCounter final : public rocksdb::EventListener {
 public:
  explicit CompactionCounter(CompactionCounters& counters)
      : counters_(counters) {}

  void OnCompactionCompleted(rocksdb::DB* /*db*/,
                             const rocksdb::CompactionJobInfo& job) override {
    constexpr uint64_t kNsPerUs = 1000;
    ++counters_.count;
    counters_.read_bytes += job.stats.total_input_bytes;
    counters_.written_bytes += job.stats.total_output_bytes;
    counters_.duration_ns += job.stats.elapsed_micros * kNsPerUs;
  }

 private:
  CompactionCounters& counters_;
};

absl::StatusOr<std::unique_ptr<IndexDb>> IndexDb::Open(const Options& options) {
  const auto cache = rocksdb::NewLRUCache(options.cache_bytes);
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  for (const char* name : kTableNames) {
    descriptors.emplace_back(name, TableOptions(options, cache));
  }
  rocksdb::DBOptions database = DatabaseOptions(options);
  std::unique_ptr<IndexDb> out(new IndexDb);
  if (options.env != nullptr) {
    out->env_ = rocksdb::NewCompositeEnv(
        MakeIndexFileSystem(*options.env, options.ballast, out->pause_));
    database.env = out->env_.get();
  }
  database.listeners.push_back(
      std::make_shared<FailureListener>(out->has_failed_));
  database.listeners.push_back(
      std::make_shared<CompactionCounter>(out->compactions_));
  rocksdb::DB* db = nullptr;
  rocksdb::Status status;
  if (options.read_only) {
    status = rocksdb::DB::OpenForReadOnly(database, options.directory,
                                          descriptors, &out->tables_, &db);
  } else {
    status = rocksdb::DB::Open(database, options.directory, descriptors,
                               &out->tables_, &db);
  }
  MSITD_RETURN_IF_ERROR(ToStatus(status, "open index " + options.directory));
  out->db_.reset(db);
  MSITD_CHECK(out->tables_.size() == kTableCount);
  return out;
}

absl::StatusOr<bool> IndexDb::LacksTables(const std::string& directory) {
  std::vector<std::string> names;
  MSITD_RETURN_IF_ERROR(ToStatus(
      rocksdb::DB::ListColumnFamilies(rocksdb::DBOptions(), directory, &names),
      "list the tables of " + directory));
  return names.size() < kTableCount;
}

IndexDb::~IndexDb() { End(); }

void IndexDb::End() {
  if (db_ == nullptr) return;
  for (rocksdb::ColumnFamilyHandle*& handle : tables_) {
    db_->DestroyColumnFamilyHandle(std::exchange(handle, nullptr))
        .PermitUncheckedError();
  }
  db_->Close().PermitUncheckedError();
  db_.reset();
}

rocksdb::DB& IndexDb::db() {
  MSITD_CHECK(db_ != nullptr);
  return *db_;
}

absl::Status IndexDb::Write(const rocksdb::WriteOptions& options,
                            rocksdb::WriteBatch& batch) {
  if (db_ == nullptr) return Ended();
  return ToStatus(db_->Write(options, &batch), "write index");
}

absl::StatusOr<std::optional<std::string>> IndexDb::Get(Table table,
                                                        std::string_view key) {
  if (db_ == nullptr) return Ended();
  std::string value;
  const rocksdb::Status status =
      db_->Get(rocksdb::ReadOptions(), this->table(table), key, &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  MSITD_RETURN_IF_ERROR(ToStatus(status, "read index"));
  return std::optional<std::string>(std::move(value));
}

std::unique_ptr<rocksdb::Iterator> IndexDb::Iterate(
    Table table, const rocksdb::ReadOptions& options) {
  if (db_ == nullptr) {
    return std::unique_ptr<rocksdb::Iterator>(rocksdb::NewErrorIterator(
        rocksdb::Status::Aborted("the index is closed")));
  }
  return std::unique_ptr<rocksdb::Iterator>(
      db_->NewIterator(options, this->table(table)));
}

void IndexDb::Put(rocksdb::WriteBatch& batch, Table table, std::string_view key,
                  std::string_view value) const {
  const rocksdb::Status status = batch.Put(this->table(table), key, value);
  MSITD_CHECK(status.ok());
}

void IndexDb::Delete(rocksdb::WriteBatch& batch, Table table,
                     std::string_view key) const {
  const rocksdb::Status status = batch.Delete(this->table(table), key);
  MSITD_CHECK(status.ok());
}

void IndexDb::DeleteRange(rocksdb::WriteBatch& batch, Table table,
                          std::string_view begin, std::string_view end) const {
  const rocksdb::Status status =
      batch.DeleteRange(this->table(table), begin, end);
  MSITD_CHECK(status.ok());
}

absl::Status IndexDb::WriteDurable(rocksdb::WriteBatch& batch) {
  rocksdb::WriteOptions options;
  options.sync = true;
  return Write(options, batch);
}

absl::Status IndexDb::WriteLogged(rocksdb::WriteBatch& batch) {
  return Write(rocksdb::WriteOptions(), batch);
}

absl::Status IndexDb::WriteUnlogged(rocksdb::WriteBatch& batch) {
  rocksdb::WriteOptions options;
  options.disableWAL = true;
  return Write(options, batch);
}

bool IndexDb::IsCongested() {
  if (db_ == nullptr || !pause_.is_on()) return false;
  for (rocksdb::ColumnFamilyHandle* handle : tables_) {
    std::string files;
    if (db_->GetProperty(handle,
                         rocksdb::DB::Properties::kNumFilesAtLevelPrefix + "0",
                         &files) &&
        std::strtol(files.c_str(), nullptr, 10) >= kLevel0FilesSlow) {
      return true;
    }
  }
  return false;
}

absl::Status IndexDb::Flush() {
  if (db_ == nullptr) return Ended();
  rocksdb::FlushOptions options;
  // Otherwise the flush may wait for a compaction, and the compaction for space
  // on the disk.
  options.allow_write_stall = true;
  return ToStatus(db_->Flush(options, tables_), "flush index");
}

absl::Status IndexDb::GiveRoomBack(Table table, std::string_view begin,
                                   std::string_view end) {
  if (db_ == nullptr) return Ended();
  rocksdb::ColumnFamilyHandle* const handle = this->table(table);
  const rocksdb::Slice first(begin);
  const rocksdb::Slice last(end);
  const rocksdb::Range range(first, last);
  uint64_t bytes = 0;
  MSITD_RETURN_IF_ERROR(
      ToStatus(db_->GetApproximateSizes(rocksdb::SizeApproximationOptions(),
                                        handle, &range, 1, &bytes),
               "size up the index"));
  if (bytes < kWorthBytes) return absl::OkStatus();
  const rocksdb::RangePtr files(&first, &last);
  constexpr bool kIncludeEnd = false;
  MSITD_RETURN_IF_ERROR(ToStatus(
      rocksdb::DeleteFilesInRanges(db_.get(), handle, &files, 1, kIncludeEnd),
      "remove files of the index"));
  // A removed file may have contained the deletion of keys whose entries are in
  // other files, so the range is deleted again.
  rocksdb::WriteBatch again;
  DeleteRange(again, table, begin, end);
  MSITD_RETURN_IF_ERROR(WriteLogged(again));
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  return ToStatus(db_->CompactRange(options, handle, &first, &last),
                  "compact index");
}

uint64_t IndexDb::DiskBytes() {
  uint64_t total = 0;
  for (int i = 0; i < kTableCount; ++i) total += DiskBytes(Table{i});
  return total;
}

uint64_t IndexDb::DiskBytes(Table table) {
  uint64_t bytes = 0;
  if (db_ == nullptr ||
      !db_->GetIntProperty(this->table(table),
                           rocksdb::DB::Properties::kTotalSstFilesSize,
                           &bytes)) {
    return 0;
  }
  return bytes;
}

CompactionStats IndexDb::Compactions() {
  CompactionStats out{.count = compactions_.count,
                      .read_bytes = compactions_.read_bytes,
                      .written_bytes = compactions_.written_bytes,
                      .duration_ns = compactions_.duration_ns,
                      .is_paused = pause_.is_on()};
  if (db_ == nullptr) return out;
  for (rocksdb::ColumnFamilyHandle* handle : tables_) {
    uint64_t bytes = 0;
    if (db_->GetIntProperty(
            handle, rocksdb::DB::Properties::kEstimatePendingCompactionBytes,
            &bytes)) {
      out.pending_bytes += bytes;
    }
  }
  return out;
}

absl::Status IndexDb::Resume() {
  if (db_ == nullptr) return Ended();
  const rocksdb::Status status = db_->Resume();
  if (status.ok()) has_failed_ = false;
  return ToStatus(status, "resume index");
}

}  // namespace msitd::storage
