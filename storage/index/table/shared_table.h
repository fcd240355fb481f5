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

// Shorter parts share nothing: less than three pages would come free.
inline constexpr uint64_t kSharedBytesMin = uint64_t{16} << 10;

// Identifies bytes of a run by their content.
struct SharedBytes {
  RunId run{};
  ContentHash hash;
  uint64_t bytes = 0;  // At most kPartBytes.

  friend bool operator==(const SharedBytes&, const SharedBytes&) = default;
};

// Where the bytes lie that parts of a run share: the last place in the log at
// which these bytes came. The entry of a part still names the place at which
// the part itself came, which may be a hole by now
// (docs/decisions/0009-equal-bytes-are-shared-afterwards.md). Thread-safe.
class SharedTable {
 public:
  explicit SharedTable(IndexDb& db) : db_(db) {}

  // Reads which runs have entries. Called once, before anything else.
  absl::Status Load();

  // False if Find returns nothing for this run. Costs next to nothing.
  bool HasEntries(RunId run);

  // Nothing if no part has given up its copy of these bytes for another one.
  absl::StatusOr<std::optional<BytePlace>> Find(const SharedBytes& bytes);

  // Returns ranges that nobody needs any more and that may not be holes yet.
  absl::StatusOr<std::vector<ByteRange>> Unfreed();

  // Returns the first segment that was not searched for equal bytes yet.
  absl::StatusOr<uint64_t> LookedAtEnd();

  void AppendTo(rocksdb::WriteBatch& batch, const SharedBytes& bytes,
                const BytePlace& place) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;
  // Replaces the ranges.
  void AppendUnfreedTo(rocksdb::WriteBatch& batch,
                       const std::vector<ByteRange>& ranges) const;
  void AppendLookedAtTo(rocksdb::WriteBatch& batch, uint64_t segment_end) const;

  // An entry of the run, or its removal, was written.
  void Accept(RunId run);
  void AcceptRemoval(RunId run);

  // Forgets the ranges: all of them are holes now. If a crash undoes this, they
  // are punched again.
  absl::Status ForgetUnfreed();

 private:
  IndexDb& db_;

  Mutex mu_;
  std::set<uint64_t> runs_ ABSL_GUARDED_BY(mu_);  // With entries.
  // Stored with release order once runs_ has one, which the acquire load in
  // HasEntries pairs with.
  std::atomic<bool> has_runs_{false};
};

}  // namespace msitd::storage
