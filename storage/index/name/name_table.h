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

// Returns the key in Table::kName of the name with this number. Such keys are
// adjacent and ascend with the number. IsNumberKey returns true for them and
// sets the number.
std::string NumberKey(uint32_t id);
bool IsNumberKey(std::string_view key, uint32_t& id);

// Numbers the names of ops, indexes, devices and placements in the order of
// their first appearance. A number is never reused: a name that is removed and
// added again gets a new number. Thread-safe, except for NewNames and the
// functions marked `as NewNames`.
class NameTable {
 public:
  // Maximum bytes of cached names. If it is exceeded, the cache is cleared and
  // names are read from the index again on demand.
  static constexpr size_t kCacheBytesMax = size_t{64} << 20;

  explicit NameTable(IndexDb& db) : db_(db) {}

  // Reads the next number. Must be called once, before everything else.
  absl::Status Load();

  absl::StatusOr<std::optional<uint32_t>> Find(std::string_view name);
  absl::StatusOr<std::string> NameOf(uint32_t id);

  // Number that the next new name gets. Must be used by one thread at a time,
  // as NewNames.
  uint32_t next_id() const { return next_id_; }

  // Starts to record which numbers in [begin, end) are used: those that Find
  // returns and those passed to Use.
  void Watch(uint32_t begin, uint32_t end);
  void Use(uint32_t id) { Use(std::span<const uint32_t>(&id, 1)); }
  void Use(std::span<const uint32_t> ids);
  // Removes the names in [begin, end) that were not used; all of them must be
  // watched. Must be used by one thread at a time, as NewNames.
  absl::Status RemoveUnused(uint32_t begin, uint32_t end);
  void EndWatch();

 private:
  friend class NewNames;

  // `removal_count` is the value of removal_count() before the name was read.
  // If names were removed since then, this one may have been removed and is not
  // cached.
  void Remember(std::string_view name, uint32_t id, uint64_t removal_count)
      ABSL_LOCKS_EXCLUDED(mu_);
  uint64_t removal_count() {
    const MutexLock lock(mu_);
    return removal_count_;
  }
  void UseLocked(uint32_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  IndexDb& db_;
  uint32_t next_id_ = 1;  // Accessed only by NewNames and Load.

  Mutex mu_;
  std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>> ids_
      ABSL_GUARDED_BY(mu_);
  // Points to the keys of ids_, whose addresses are stable.
  std::unordered_map<uint32_t, const std::string*> names_ ABSL_GUARDED_BY(mu_);
  size_t cache_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  // Number of removals; a name that was read before a removal may no longer
  // exist.
  uint64_t removal_count_ ABSL_GUARDED_BY(mu_) = 0;
  // One element for each number starting at watch_begin_.
  std::vector<bool> used_ ABSL_GUARDED_BY(mu_);
  uint32_t watch_begin_ ABSL_GUARDED_BY(mu_) = 0;
};

// Names that one batch adds. Their numbers become final with Accept; until then
// they are not visible to others. Must be used by one thread at a time, as
// FrameIndexer.
class NewNames {
 public:
  explicit NewNames(NameTable& table)
      : table_(table), next_id_(table.next_id_) {}

  // Returns the number of `name`, or a new number if there is none. Returns
  // RESOURCE_EXHAUSTED if all numbers are in use.
  absl::StatusOr<uint32_t> Intern(std::string_view name);

  void AppendTo(rocksdb::WriteBatch& batch) const;

  // Must be called after the batch is written.
  void Accept();

 private:
  NameTable& table_;
  uint32_t next_id_;
  std::unordered_map<std::string, uint32_t, StringHash, std::equal_to<>> added_;
};

}  // namespace msitd::storage
