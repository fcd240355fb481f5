// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/index/db/index_db.h"

namespace msitd::storage {

struct StringHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const {
    return std::hash<std::string_view>()(text);
  }
};

// The entry of Table::kName that has the name of this number: they follow each
// other. IsNumberKey is true for such keys.
std::string NumberKey(uint32_t id);
bool IsNumberKey(std::string_view key, uint32_t& id);

// Numbers for the names of ops, indexes and devices, given in the order of
// their first appearance and never again: a name that was removed gets another
// one when it comes back. Thread-safe, but for NewNames and what says so.
class NameTable {
 public:
  // Bytes of names kept in memory; over that all are forgotten and read back
  // from the index as they are asked for.
  static constexpr size_t kCacheBytesMax = size_t{64} << 20;

  explicit NameTable(IndexDb& db) : db_(db) {}

  // Reads the next number. Called once, before anything else.
  absl::Status Load();

  absl::StatusOr<std::optional<uint32_t>> Find(std::string_view name);
  absl::StatusOr<std::string> NameOf(uint32_t id);

  // The number that the next new name gets. As NewNames.
  uint32_t next_id() const { return next_id_; }

  // From now on it is kept which of the numbers in [begin, end) are used: those
  // that Find returns, and those of Use.
  void Watch(uint32_t begin, uint32_t end);
  void Use(uint32_t id) { Use(std::span<const uint32_t>(&id, 1)); }
  void Use(std::span<const uint32_t> ids);
  // Removes the names in [begin, end), which are watched, that were not used.
  // As NewNames.
  absl::Status RemoveUnused(uint32_t begin, uint32_t end);
  void EndWatch();

 private:
  friend class NewNames;

  // `removal_count`: what it was before the name was read.
  void Remember(std::string_view name, uint32_t id, uint64_t removal_count)
      ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t removal_count() {
    const MutexLock lock(mu_);
    return removal_count_;
  }
  void UseLocked(uint32_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  IndexDb& db_;
  uint32_t next_id_ = 1;  // Only NewNames and Load touch it.

  Mutex mu_;
  std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>> ids_
      ABSL_GUARDED_BY(mu_);
  // Points to the keys of ids_, which do not move.
  std::unordered_map<uint32_t, const std::string*> names_ ABSL_GUARDED_BY(mu_);
  size_t cache_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // What was read before a removal may have gone.
  uint64_t removal_count_ ABSL_GUARDED_BY(mu_) = 0;
  // One for each number from watch_begin_ on.
  std::vector<bool> used_ ABSL_GUARDED_BY(mu_);
  uint32_t watch_begin_ ABSL_GUARDED_BY(mu_) = 0;
};

// The names that one batch adds. Numbers are given away for good by Accept;
// until then nobody else sees them. Single-sequence: as FrameIndexer.
class NewNames {
 public:
  explicit NewNames(NameTable& table)
      : table_(table), next_id_(table.next_id_) {}

  // Returns the number of `name`, a new one if there is none.
  // RESOURCE_EXHAUSTED once all numbers are given away.
  absl::StatusOr<uint32_t> Intern(std::string_view name);

  void AppendTo(rocksdb::WriteBatch& batch) const;

  // Called once the batch is written.
  void Accept();

 private:
  NameTable& table_;
  uint32_t next_id_;
  std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>> added_;
};

}  // namespace msitd::storage
