// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/env/ballast.h"
#include "storage/env/env.h"
#include "storage/face/types.h"
#include "storage/index/db/index_file_system.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
class Env;
class Iterator;
class Slice;
class Status;
class WriteBatch;
struct ReadOptions;
struct WriteOptions;
}  // namespace rocksdb

namespace msitd::storage {

// Each is a column family; docs/format/index.md has their keys.
enum class Table : int {
  kMeta = 0,  // The default one: store id, counters of ids, log position.
  kRun,
  kName,
  kTensor,
  kComparison,
  kSegment,
  kStream,
};
inline constexpr int kTableCount = 7;

// The name of the column family.
std::string_view TableName(Table table);

// The RocksDB database below the index.
//
// Entries that can be rebuilt from frames are written without RocksDB's log.
// All tables are flushed together, so a crash leaves these entries as they were
// after some earlier batch. Everything else is logged.
//
// Thread-safe. Going out of scope without Flush is like a crash.
class IndexDb {
 public:
  struct Options {
    std::string directory;
    uint64_t write_buffer_bytes = uint64_t{32} << 20;
    uint64_t cache_bytes = uint64_t{64} << 20;
    // Makes a database that does not exist.
    bool creates = true;
    // Nothing is written, not even a log file.
    bool read_only = false;
    // All tables are open on return, however many files that takes.
    bool opens_all_tables = false;
    // A log of the database that is damaged before its last record is an error.
    // Otherwise the log ends there, as if it had been torn.
    bool refuses_log_damage = false;
    // `env` is told of operations on files; `ballast` lends its room once the
    // disk is full. Both outlive the database; null for none.
    Env* env = nullptr;
    Ballast* ballast = nullptr;
  };

  // Opens the database, or makes it unless it is read-only or told not to.
  static absl::StatusOr<std::unique_ptr<IndexDb>> Open(const Options& options);
  // True if the process that made the database ended before it had all tables.
  // Opening it for writing adds them.
  static absl::StatusOr<bool> LacksTables(const std::string& directory);
  ~IndexDb();

  // Closes the database. Nobody may be using it; every later call returns
  // UNAVAILABLE.
  void End();

  rocksdb::DB& db();
  rocksdb::ColumnFamilyHandle* table(Table table) const {
    return tables_[static_cast<size_t>(table)];
  }

  absl::StatusOr<std::optional<std::string>> Get(Table table,
                                                 std::string_view key);
  // Iterates over `table`, up to the bound that `options` sets, if any.
  std::unique_ptr<rocksdb::Iterator> Iterate(
      Table table, const rocksdb::ReadOptions& options);

  // Add one change to `batch`.
  void Put(rocksdb::WriteBatch& batch, Table table, std::string_view key,
           std::string_view value) const;
  void Delete(rocksdb::WriteBatch& batch, Table table,
              std::string_view key) const;
  // Deletes the keys from `begin` up to, but without, `end`. In Table::kTensor,
  // `begin` ends before the token.
  void DeleteRange(rocksdb::WriteBatch& batch, Table table,
                   std::string_view begin, std::string_view end) const;

  // Logged and synced: durable on return.
  absl::Status WriteDurable(rocksdb::WriteBatch& batch);
  // Logged: survives the process, and becomes durable with the next
  // WriteDurable.
  absl::Status WriteLogged(rocksdb::WriteBatch& batch);
  // Not logged: survives only what a Flush follows.
  absl::Status WriteUnlogged(rocksdb::WriteBatch& batch);

  // True while compactions wait for room on the disk and have so much work that
  // more of it would slow every write down.
  bool IsCongested();

  // Makes everything durable, all tables at once.
  absl::Status Flush();

  // Gives back the disk room of the keys from `begin` up to `end`, all of which
  // were deleted. Blocks while some files at the borders of the range are
  // written anew; others read and write meanwhile. A range of less than
  // kWorthBytes is left to RocksDB's own compactions.
  static constexpr uint64_t kWorthBytes = uint64_t{64} << 10;
  absl::Status GiveRoomBack(Table table, std::string_view begin,
                            std::string_view end);

  // Bytes that the tables take on the disk; 0 after End. Costs little.
  uint64_t DiskBytes();
  // The same for one table.
  uint64_t DiskBytes(Table table);

  // Counts from Open. Costs little.
  CompactionStats Compactions();

  // True from an error, of a write or in the background, that may make RocksDB
  // refuse writes, until Resume succeeds.
  bool has_failed() const { return has_failed_; }
  // Tries to leave the state in which such an error refuses writes.
  absl::Status Resume();

 private:
  class CompactionCounter;

  IndexDb() = default;
  absl::Status Write(const rocksdb::WriteOptions& options,
                     rocksdb::WriteBatch& batch);

  // The database uses these, so they are declared before it.
  std::atomic<bool> has_failed_ = false;  // Stands alone.
  // Counters of compactions. Each stands alone.
  struct CompactionCounters {
    std::atomic<uint64_t> count = 0;
    std::atomic<uint64_t> read_bytes = 0;
    std::atomic<uint64_t> written_bytes = 0;
    std::atomic<uint64_t> duration_ns = 0;
  };
  CompactionCounters compactions_;
  CompactionPause pause_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> tables_;
};

// Corruption is DATA_LOSS, no space RESOURCE_EXHAUSTED, all else UNAVAILABLE.
absl::Status ToStatus(const rocksdb::Status& status, std::string_view context);

// DATA_LOSS: a key or value of `table` that cannot be read.
absl::Status IndexCorrupt(std::string_view table);

}  // namespace msitd::storage
