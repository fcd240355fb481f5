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

// Returns the key in Table::kName under which the name with this number is;
// such keys are neighbours and ascend with the number. IsNumberKey is true for
// them and gives the number.
std::string NumberKey(uint32_t id);
bool IsNumberKey(std::string_view key, uint32_t& id);

// Numbers the names of ops, indexes, devices and placements in the order of
// their first appearance. A number is never given again: a name that was
// removed and comes back gets another one. Thread-safe, except NewNames and the
// functions that say `as NewNames`.
class NameTable {
 public:
  // The most bytes of names in memory. Above it, all are forgotten and read
  // back from the index as they are asked for.
  static constexpr size_t kCacheBytesMax = size_t{64} << 20;

  explicit NameTable(IndexDb& db) : db_(db) {}

  // Reads the next number. Called once, before anything else.
  absl::Status Load();

  absl::StatusOr<std::optional<uint32_t>> Find(std::string_view name);
  absl::StatusOr<std::string> NameOf(uint32_t id);

  // The number that the next new name gets. Single-sequence, as NewNames.
  uint32_t next_id() const { return next_id_; }

  // Begins to record which numbers in [begin, end) are used: those that Find
  // returns and those passed to Use.
  void Watch(uint32_t begin, uint32_t end);
  void Use(uint32_t id) { Use(std::span<const uint32_t>(&id, 1)); }
  void Use(std::span<const uint32_t> ids);
  // Removes the names in [begin, end), all of them watched, that were not used.
  // Single-sequence, as NewNames.
  absl::Status RemoveUnused(uint32_t begin, uint32_t end);
  void EndWatch();

 private:
  friend class NewNames;

  // `removal_count` is removal_count() from before the name was read: if names
  // were removed since, this one may have gone and is not remembered.
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
  // Counts removals: a name that was read before one may have gone.
  uint64_t removal_count_ ABSL_GUARDED_BY(mu_) = 0;
  // One for each number from watch_begin_ on.
  std::vector<bool> used_ ABSL_GUARDED_BY(mu_);
  uint32_t watch_begin_ ABSL_GUARDED_BY(mu_) = 0;
};

// The names that one batch adds. Their numbers become final with Accept; until
// then nobody else sees them. Single-sequence, as FrameIndexer.
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
