// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"
#include "storage/segment/segment_id.h"

namespace msitd::storage {

// Records which runs have frames in which segment, and how many payload bytes
// of them the index refers to. Also records which dead segments, which are no
// longer needed, may still have a file. Thread-safe.
class SegmentTable {
 public:
  explicit SegmentTable(IndexDb& db) : db_(db) {}

  // Adds to the bytes of `run` in `segment`; 0 if its new frames have only
  // duplicates. Must be called at most once for each pair in a batch.
  absl::Status AppendLiveTo(rocksdb::WriteBatch& batch, SegmentId segment,
                            RunId run, uint64_t added_bytes);

  // Records that `run` has frames in `segment`. As durable as the entries of
  // the frames.
  absl::Status AddUser(SegmentId segment, RunId run);

  // Removes the run from all segments. Marks the segments that only it used as
  // dead, and returns them.
  absl::StatusOr<std::vector<SegmentId>> AppendRemovalTo(
      rocksdb::WriteBatch& batch, RunId run);

  // Returns the payload bytes of `run` in `segment` that the index refers to;
  // nothing if the run has no frame there.
  absl::StatusOr<std::optional<uint64_t>> LiveBytes(SegmentId segment,
                                                    RunId run);
  // Calls `use` for each segment and each run that has frames in it, with the
  // payload bytes that the index refers to. Ordered by segment.
  absl::Status ForEachUse(
      absl::FunctionRef<void(SegmentId, RunId, uint64_t)> use);
  // Returns the runs that have frames in `segment`.
  absl::StatusOr<std::vector<RunId>> RunsIn(SegmentId segment);

  // Dead returns the dead segments whose file may still exist; ForgetDead drops
  // one whose file was removed.
  absl::StatusOr<std::vector<SegmentId>> Dead();
  absl::Status ForgetDead(SegmentId segment);

 private:
  IndexDb& db_;
};

}  // namespace msitd::storage
