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

// A column family each; see docs/format/index.md for their keys.
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

// The RocksDB database below the index.
//
// Entries that frames can bring back are written without its log, and all
// tables are flushed together, so a crash leaves the index as it was after
// some earlier batch. Everything else is logged.
//
// Thread-safe. Going out of scope without Flush is like a crash.
class IndexDb {
 public:
  struct Options {
    std::string directory;
    uint64_t write_buffer_bytes = uint64_t{32} << 20;
    uint64_t cache_bytes = uint64_t{64} << 20;
    // One that is not there is made.
    bool creates = true;
    // Nothing is written, not even a log file.
    bool read_only = false;
    // All tables are open on return, however many files that takes.
    bool opens_all_tables = false;
    // Told of what it does to its files, and what it writes with once the disk
    // is full: both outlive it. Null for none.
    Env* env = nullptr;
    Ballast* ballast = nullptr;
  };

  // Opens the database, or makes it unless it is read-only or told not to.
  static absl::StatusOr<std::unique_ptr<IndexDb>> Open(const Options& options);
  ~IndexDb();

  // Closes the database, which nobody uses, and has every call return
  // UNAVAILABLE from then on.
  void End();

  rocksdb::DB& db();
  rocksdb::ColumnFamilyHandle* table(Table table) const {
    return tables_[static_cast<size_t>(table)];
  }

  absl::StatusOr<std::optional<std::string>> Get(Table table,
                                                 std::string_view key);
  // All entries of `table`, or those below a bound that `options` sets.
  std::unique_ptr<rocksdb::Iterator> Iterate(
      Table table, const rocksdb::ReadOptions& options);

  // Add one change to `batch`.
  void Put(rocksdb::WriteBatch& batch, Table table, std::string_view key,
           std::string_view value) const;
  void Delete(rocksdb::WriteBatch& batch, Table table,
              std::string_view key) const;
  // Deletes the keys from `begin` up to, but without, `end`.
  // `begin` ends before the token in Table::kTensor.
  void DeleteRange(rocksdb::WriteBatch& batch, Table table,
                   std::string_view begin, std::string_view end) const;

  // Logged and synced: durable on return.
  absl::Status WriteDurable(rocksdb::WriteBatch& batch);
  // Logged: survives the process, and becomes durable with the next
  // WriteDurable.
  absl::Status WriteLogged(rocksdb::WriteBatch& batch);
  // Not logged: survives only what a Flush follows.
  absl::Status WriteUnlogged(rocksdb::WriteBatch& batch);

  // True while compactions wait for room on the disk and so much waits for them
  // that more would slow every write down.
  bool IsCongested();

  // Makes everything durable, all tables at once.
  absl::Status Flush();

  // Has the disk room of the keys from `begin` up to `end`, all of which were
  // deleted, given back. Blocks for as long as it takes to write some files at
  // the borders of the range anew; others read and write meanwhile. Less than
  // kWorthBytes stays until RocksDB comes by.
  static constexpr uint64_t kWorthBytes = uint64_t{64} << 10;
  absl::Status GiveRoomBack(Table table, std::string_view begin,
                            std::string_view end);

  // What the tables take on the disk; 0 once it was ended. Costs little.
  uint64_t DiskBytes();

  // True once an error, of a write or in the background, may have it refuse
  // writes; until Resume.
  bool has_failed() const { return has_failed_; }
  // Tries to leave the state in which such an error refuses writes.
  absl::Status Resume();

 private:
  IndexDb() = default;
  absl::Status Write(const rocksdb::WriteOptions& options,
                     rocksdb::WriteBatch& batch);

  // What the DB uses, so before it.
  std::atomic<bool> has_failed_ = false;  // Stands alone.
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
