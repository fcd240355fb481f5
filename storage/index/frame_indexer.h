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

namespace msitd::storage {

// A frame that is durable once it is committed, with its stamps.
struct IndexedFrame {
  const chunk::Chunk* chunk = nullptr;
  RunId run{};
  // A run that is sealed has no streams to keep.
  bool keep_stream = true;
};

struct IndexOutcome {
  uint64_t record_count = 0;  // Added; duplicates and conflicts are not.
  uint64_t payload_bytes = 0;
  uint64_t duplicate_count = 0;
  uint64_t conflict_count = 0;
  // Of these conflicts, those of each frame that has some, by its place among
  // those that were prepared.
  std::map<size_t, uint32_t> frame_conflicts;
};

// Puts frames into the index: entries, new names, counters, placements,
// streams and the log position in one batch, sorted by key.
//
// The first record of a (key, part) stays; a later one is a duplicate if its
// hash, dtype and shape are the same, a conflict otherwise. So is a part that
// does not agree with the parts of the tensor that came before it.
//
// Single-sequence: whoever holds the append lock of the store, or a thread that
// works for them meanwhile.
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

  // What Commit is to write.
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

  // Does all that can be done before the frames are durable: they have all
  // stamps but their checksums, which may be stamped meanwhile. `frames`
  // outlives the result. `position` is the log behind the last of them, in the
  // order of their writing. Changes nothing but what is remembered of the
  // index.
  absl::StatusOr<Prepared> Prepare(std::span<const IndexedFrame> frames,
                                   const LogPosition& position);

  // Puts them in, now that they are durable; nothing else was committed since
  // Prepare. After an error nothing is visible.
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
