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

// Tables of the index. Each is a column family; docs/format/index.md describes
// the keys.
enum class Table : int {
  kMeta = 0,  // The default column family: store id, counters of ids, log
              // position.
  kRun,
  kName,
  kTensor,
  kComparison,
  kSegment,
  kStream,
};
inline constexpr int kTableCount = 7;

// Returns the name of the column family.
std::string_view TableName(Table table);

// The RocksDB database of the index.
//
// Entries that can be rebuilt from frames are written without RocksDB's log.
// All tables are flushed together, so that after a crash these entries are in
// the state after an earlier batch. All other data is logged.
//
// Thread-safe. Destruction without Flush is equivalent to a crash.
class IndexDb {
 public:
  struct Options {
    std::string directory;
    uint64_t write_buffer_bytes = uint64_t{32} << 20;
    uint64_t cache_bytes = uint64_t{64} << 20;
    // Whether to create a database that does not exist.
    bool creates = true;
    // Whether to write nothing, not even a log file.
    bool read_only = false;
    // Whether all tables must be open on return, regardless of the number of
    // files.
    bool opens_all_tables = false;
    // Whether damage in a log of the database before its last record is an
    // error. Otherwise the log ends there, as if it had been torn.
    bool refuses_log_damage = false;
    // `env` is notified of operations on files; `ballast` provides its space
    // when the disk is full. Both must outlive the database; null for none.
    Env* env = nullptr;
    Ballast* ballast = nullptr;
  };

  // Opens the database. Creates it if it does not exist and the options allow
  // it.
  static absl::StatusOr<std::unique_ptr<IndexDb>> Open(const Options& options);
  // True if the process that created the database ended before it had created
  // all tables. Opening the database for writing adds them.
  static absl::StatusOr<bool> LacksTables(const std::string& directory);
  ~IndexDb();

  // Closes the database, which must not be in use. All later calls return
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

  // Adds one change to `batch`.
  void Put(rocksdb::WriteBatch& batch, Table table, std::string_view key,
           std::string_view value) const;
  void Delete(rocksdb::WriteBatch& batch, Table table,
              std::string_view key) const;
  // Deletes the keys from `begin` up to `end`, excluding `end`. In
  // Table::kTensor, `begin` must end before the token.
  void DeleteRange(rocksdb::WriteBatch& batch, Table table,
                   std::string_view begin, std::string_view end) const;

  // Writes with log and sync: durable on return.
  absl::Status WriteDurable(rocksdb::WriteBatch& batch);
  // Writes with log: survives the process, and becomes durable with the next
  // WriteDurable.
  absl::Status WriteLogged(rocksdb::WriteBatch& batch);
  // Writes without log: survives only if a Flush follows.
  absl::Status WriteUnlogged(rocksdb::WriteBatch& batch);

  // True while compactions wait for space on the disk and have so much pending
  // work that more of it would slow down every write.
  bool IsCongested();

  // Makes all data durable, for all tables at once.
  absl::Status Flush();

  // Reclaims the disk space of the keys from `begin` up to `end`, all of which
  // must have been deleted. Blocks while some files at the borders of the range
  // are rewritten; other threads can read and write at the same time. A range
  // of less than kWorthBytes is left to RocksDB's own compactions.
  static constexpr uint64_t kWorthBytes = uint64_t{64} << 10;
  absl::Status GiveRoomBack(Table table, std::string_view begin,
                            std::string_view end);

  // Returns the bytes of the tables on the disk; 0 after End. Cheap.
  uint64_t DiskBytes();
  // As DiskBytes, for one table.
  uint64_t DiskBytes(Table table);

  // Returns counters since Open. Cheap.
  CompactionStats Compactions();

  // True after an error, of a write or in the background, that may make RocksDB
  // refuse writes, until Resume succeeds.
  bool has_failed() const { return has_failed_; }
  // Tries to leave the state in which RocksDB refuses writes after an error.
  absl::Status Resume();

 private:
  class CompactionCounter;

  IndexDb() = default;
  absl::Status Write(const rocksdb::WriteOptions& options,
                     rocksdb::WriteBatch& batch);

  // Declared before the database, which uses these members.
  std::atomic<bool> has_failed_ = false;  // Not used to publish other data.
  // Counters of compactions, each of which is independent.
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

// Converts a status: corruption to DATA_LOSS, no space to RESOURCE_EXHAUSTED,
// and all others to UNAVAILABLE.
absl::Status ToStatus(const rocksdb::Status& status, std::string_view context);

// Returns DATA_LOSS for a key or value of `table` that cannot be decoded.
absl::Status IndexCorrupt(std::string_view table);

}  // namespace msitd::storage
