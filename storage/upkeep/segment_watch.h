// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "storage/env/env.h"
#include "storage/face/types.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_set.h"

namespace msitd::storage {

// Compares the segments that runs need with the existing files.
//
// A segment whose file is missing looks like one that retention has removed:
// both are names in the index without a file. The difference matters to readers
// of a tensor, because discarded bytes are gone by the user's own rules, while
// missing bytes may return when a disk is mounted again. The index can
// distinguish the two: it has a mark for everything that was discarded, and
// removes the segments of a run with the run. A segment is therefore missing if
// a run has payload in it that no mark covers, and its file does not exist or
// ends before the last acknowledged byte.
//
// Must be used by one thread at a time. Belongs to one index and must be
// created again when the index is reopened.
class SegmentWatch {
 public:
  SegmentWatch(ChunkIndex& index, Env& env, std::string segment_directory)
      : index_(index),
        env_(env),
        segment_directory_(std::move(segment_directory)) {}

  // Compares all segments of the index with `files`. `ends` has the minimum
  // size of segments, by number. Reads the segment table once.
  //
  // Errors: those of the index.
  absl::Status Begin(const std::vector<SegmentFile>& files,
                     const std::map<uint64_t, uint64_t>& ends);

  // Result of LookAgain.
  struct Changes {
    std::vector<SegmentId> vanished;    // Segments of `present` whose files
                                        // have vanished.
    std::vector<SegmentFile> returned;  // Segments that were missing and have
                                        // returned.
  };
  // Lists the directory again. `present` has the numbers of the segments whose
  // files existed before; only the names of files are compared.
  //
  // Errors: those of the directory and the index.
  absl::StatusOr<Changes> LookAgain(const std::vector<uint64_t>& present);

  MissingSegments Missing() const;
  bool IsMissing(uint64_t number) const { return missing_.contains(number); }

 private:
  struct Segment {
    uint64_t end_bytes = 0;               // Minimum size of the file.
    std::map<uint64_t, uint64_t> needed;  // Payload bytes, by run.
  };

  // Returns how many of the `live_bytes` payload bytes of the run in the
  // segment, to which the index refers, were not discarded.
  uint64_t NeededBytes(SegmentId segment, RunId run, uint64_t live_bytes);
  absl::Status Measure(uint64_t number, Segment& segment);
  // Publishes how many bytes of each run are missing.
  void Publish();

  ChunkIndex& index_;
  Env& env_;
  const std::string segment_directory_;
  std::map<uint64_t, Segment> missing_;
  std::map<uint64_t, uint64_t> published_;  // Missing bytes, by run.
};

}  // namespace msitd::storage
