// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>

#include "absl/status/statusor.h"
#include "protos/chunk/chunk.h"
#include "storage/face/types.h"
#include "storage/index/db/index_db.h"
#include "storage/index/db/index_value.h"
#include "storage/index/db/last_keys.h"
#include "storage/index/name/name_table.h"
#include "storage/index/name/placement_table.h"
#include "storage/index/table/coverage_table.h"
#include "storage/index/table/run_table.h"
#include "storage/index/table/segment_table.h"
#include "storage/index/table/stream_table.h"
#include "storage/segment/log_frame.h"

namespace msitd::storage {

struct IndexOutcome {
  uint64_t record_count = 0;  // Number of added records, without duplicates and
                              // conflicts.
  uint64_t payload_bytes = 0;
  uint64_t duplicate_count = 0;
  uint64_t conflict_count = 0;
  uint64_t checked_digest_count = 0;  // Number of parts that were sent with
                                      // their digest.
  uint64_t false_digest_count = 0;    // Number of these whose digest was wrong.
  uint64_t dangling_count = 0;        // Number of aliases without an original;
                                      // they are not added.
  // Number of conflicts of each frame that has some, by position of the frame
  // in the argument of Prepare.
  std::map<size_t, uint32_t> frame_conflicts;
};

// Adds frames to the index: entries, new names, counters, placements, streams
// and the log position in one batch, sorted by key.
//
// The first record of a (key, part) is kept. A later one is a duplicate if its
// hash, dtype and shape are equal, otherwise a conflict. A part whose dtype or
// shape differs from earlier parts of its tensor is also a conflict. An alias
// without a location is only counted.
//
// Must be used by one thread at a time: the holder of the store's append lock,
// or a thread that works on its behalf.
class FrameIndexer {
 public:
  FrameIndexer(IndexDb& db, NameTable& names, RunTable& runs,
               StreamTable& streams, SegmentTable& segments,
               PlacementTable& placements, CoverageTable& coverage)
      : db_(db),
        names_(names),
        runs_(runs),
        streams_(streams),
        segments_(segments),
        placements_(placements),
        coverage_(coverage),
        last_keys_(db) {}

  // The data that Commit will write.
  class Prepared {
   public:
    Prepared(Prepared&&) noexcept;
    ~Prepared();

   private:
    friend class FrameIndexer;
    struct Work;
    explicit Prepared(std::unique_ptr<Work> work);

    std::unique_ptr<Work> work_;
  };

  // Does all work that is possible before the frames are durable. All fields of
  // the frames must be stamped, except for their checksums, which may be
  // stamped concurrently. Does not change the chunks. `frames`, in the order of
  // writing, must outlive the result. `position` is the end of the log after
  // the last frame. Changes only cached state of the index.
  absl::StatusOr<Prepared> Prepare(std::span<const LogFrame> frames,
                                   const LogPosition& position);

  // Adds the frames, which must be durable now, to the index. Nothing else may
  // have been committed since Prepare. After an error, none of their data is
  // visible.
  absl::StatusOr<IndexOutcome> Commit(Prepared prepared);

 private:
  IndexDb& db_;
  NameTable& names_;
  RunTable& runs_;
  StreamTable& streams_;
  SegmentTable& segments_;
  PlacementTable& placements_;
  CoverageTable& coverage_;
  LastKeys last_keys_;
};

}  // namespace msitd::storage
