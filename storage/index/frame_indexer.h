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

// A stamped frame that is durable by the time of Commit.
struct IndexedFrame {
  const chunk::Chunk* chunk = nullptr;
  RunId run{};
  // False for a sealed run: its streams are no longer kept.
  bool keep_stream = true;
};

struct IndexOutcome {
  uint64_t record_count = 0;  // Added; duplicates and conflicts are not.
  uint64_t payload_bytes = 0;
  uint64_t duplicate_count = 0;
  uint64_t conflict_count = 0;
  uint64_t checked_digest_count = 0;  // Parts that came with their digest.
  uint64_t false_digest_count = 0;    // Of these, with another one.
  uint64_t dangling_count = 0;        // Aliases without an original; not added.
  // The conflicts of each frame that has some, by its position in what Prepare
  // was given.
  std::map<size_t, uint32_t> frame_conflicts;
};

// Puts frames into the index: entries, new names, counters, placements,
// streams and the log position in one batch, sorted by key.
//
// The first record of a (key, part) stays. A later one is a duplicate if its
// hash, dtype and shape are the same, otherwise a conflict. A part that
// disagrees in dtype or shape with parts of the tensor that came before it is a
// conflict as well. An alias whose place was not found is only counted.
//
// Single-sequence: called by the holder of the store's append lock, or by a
// thread that works for the holder meanwhile.
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

  // Does all that can be done before the frames are durable. They have all
  // stamps but their checksums, which may be stamped meanwhile. `frames`, in
  // the order of their writing, outlives the result. `position` is the end of
  // the log behind the last frame. Changes nothing but what is remembered of
  // the index.
  absl::StatusOr<Prepared> Prepare(std::span<const IndexedFrame> frames,
                                   const LogPosition& position);

  // Puts the frames, which are durable now, into the index. Nothing else may
  // have been committed since Prepare. After an error nothing of them is
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
