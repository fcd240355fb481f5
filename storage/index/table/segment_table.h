// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"
#include "storage/segment/segment_id.h"

namespace msitd::storage {

// Which runs have frames in which segment, with how many bytes of payload that
// the index refers to; and which segments nobody needs any more but still have
// a file. Thread-safe.
class SegmentTable {
 public:
  explicit SegmentTable(IndexDb& db) : db_(db) {}

  // Adds to the bytes of `run` in `segment`, 0 for frames of duplicates only.
  // A batch adds to each pair once.
  absl::Status AppendLiveTo(rocksdb::WriteBatch& batch, SegmentId segment,
                            RunId run, uint64_t added_bytes);

  // Sees that `run` counts as one with frames in `segment`. As durable as the
  // frames' entries.
  absl::Status AddUser(SegmentId segment, RunId run);

  // Removes the run from all segments and marks those dead that only it used.
  // Returns these.
  absl::StatusOr<std::vector<SegmentId>> AppendRemovalTo(
      rocksdb::WriteBatch& batch, RunId run);

  // The payload bytes of `run` in `segment` that the index refers to; nothing
  // if the run has no frame there.
  absl::StatusOr<std::optional<uint64_t>> LiveBytes(SegmentId segment,
                                                    RunId run);
  // The runs that have frames in `segment`.
  absl::StatusOr<std::vector<RunId>> RunsIn(SegmentId segment);

  // Dead segments whose file may still be there, and the end of one.
  absl::StatusOr<std::vector<SegmentId>> Dead();
  absl::Status Bury(SegmentId segment);

 private:
  IndexDb& db_;
};

}  // namespace msitd::storage
