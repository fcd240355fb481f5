// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "protos/status/mutex.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_value.h"
#include "storage/segment/segment_id.h"

namespace msitd::storage {

// Records which bytes have been discarded: one mark for each run in each
// segment, kept even after the file of the segment was removed. All marks are
// in memory. Thread-safe. Changes take two steps, as in RunTable.
class ExpiryTable {
 public:
  explicit ExpiryTable(IndexDb& db) : db_(db) {}

  // Reads all marks. Must be called once, before everything else.
  absl::Status Load();

  // Returns the mark of the run in the segment; a mark with 0 bytes if there is
  // none.
  ExpiryMark Mark(SegmentId segment, RunId run);

  // True if the bytes at `offset` in a frame of `run` have been discarded.
  bool IsExpired(SegmentId segment, RunId run, uint64_t offset);

  uint64_t ExpiredBytes(RunId run);

  struct UnfreedSpace {
    SegmentId segment{};
    RunId run{};
  };
  // Returns a run and segment whose space has not been reclaimed completely;
  // nothing if there is none.
  std::optional<UnfreedSpace> Unfreed();
  // Returns the segments in which at least one run has discarded everything.
  std::vector<SegmentId> Drained();

  void AppendTo(rocksdb::WriteBatch& batch, SegmentId segment, RunId run,
                const ExpiryMark& mark) const;
  void AppendRemovalTo(rocksdb::WriteBatch& batch, RunId run) const;
  void Accept(SegmentId segment, RunId run, const ExpiryMark& mark);
  void AcceptRemoval(RunId run);

 private:
  // Run and segment.
  using Key = std::pair<uint64_t, uint64_t>;

  IndexDb& db_;

  // Saves readers from locking while nothing has ever been discarded. Set under
  // mu_ by Accept with release order, which pairs with the acquire in
  // IsExpired.
  std::atomic<bool> has_marks_ = false;

  Mutex mu_;
  std::map<Key, ExpiryMark> marks_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, uint64_t> expired_bytes_ ABSL_GUARDED_BY(mu_);
};

}  // namespace msitd::storage
