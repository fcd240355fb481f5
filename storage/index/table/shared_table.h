// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/status/mutex.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_value.h"

namespace msitd::storage {

// Shorter parts are not shared, because that would free less than three pages.
inline constexpr uint64_t kSharedBytesMin = uint64_t{16} << 10;

// Identifies bytes of a run by their content.
struct SharedBytes {
  RunId run{};
  ContentHash hash;
  uint64_t bytes = 0;  // At most kPartBytes.

  friend bool operator==(const SharedBytes&, const SharedBytes&) = default;
};

// The location of bytes that several parts of a run share: the last place in
// the log where these bytes were written. The entry of a part still names the
// place where the part itself was written, which may be a hole by now
// (docs/decisions/0009-equal-bytes-are-shared-afterwards.md). Thread-safe.
class SharedTable {
 public:
  explicit SharedTable(IndexDb& db) : db_(db) {}

  // Reads which runs have entries. Must be called once, before everything else.
  absl::Status Load();

  // False if Find returns nothing for this run. Very cheap.
  bool HasEntries(RunId run);

  // Returns nothing if no part has discarded its copy of these bytes in favor
  // of another one.
  absl::StatusOr<std::optional<BytePlace>> Find(const SharedBytes& bytes);

  // Returns ranges that are no longer needed and that may not be holes yet.
  absl::StatusOr<std::vector<ByteRange>> Unfreed();

  // Returns the first segment that was not yet searched for equal bytes.
  absl::StatusOr<uint64_t> LookedAtEnd();

  void AppendTo(rocksdb::WriteBatch& batch, const SharedBytes& bytes,
                const BytePlace& place) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;
  // Replaces the ranges.
  void AppendUnfreedTo(rocksdb::WriteBatch& batch,
                       const std::vector<ByteRange>& ranges) const;
  void AppendLookedAtTo(rocksdb::WriteBatch& batch, uint64_t segment_end) const;

  // Must be called after an entry of the run, or its removal, was written.
  void Accept(RunId run);
  void AcceptRemoval(RunId run);

  // Drops the ranges, all of which are holes now. If a crash undoes this, they
  // are punched again.
  absl::Status ForgetUnfreed();

 private:
  IndexDb& db_;

  Mutex mu_;
  std::set<uint64_t> runs_ ABSL_GUARDED_BY(mu_);  // Runs with entries.
  // Stored with release order once runs_ is not empty; pairs with the acquire
  // load in HasEntries.
  std::atomic<bool> has_runs_{false};
};

}  // namespace msitd::storage
