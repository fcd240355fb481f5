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

// Compares the segments that runs need with the files that are there.
//
// A segment whose file is not there looks like one that retention has removed:
// both are names in the index without a file. The difference matters to
// whoever reads a tensor, because bytes that were given up are gone by the
// user's own rules, while bytes that are lost may come back with a disk that is
// mounted again. The index can tell them apart: it keeps a mark for everything
// that was given up, and forgets the segments of a run with the run. So a
// segment is missing if a run has payload in it that no mark covers, and its
// file does not exist or ends before the last acknowledged byte.
//
// Single-sequence. Of one index: made again when that is opened again.
class SegmentWatch {
 public:
  SegmentWatch(ChunkIndex& index, Env& env, std::string segment_directory)
      : index_(index),
        env_(env),
        segment_directory_(std::move(segment_directory)) {}

  // Compares all segments of the index with `files`. `ends` has, by number,
  // where segments end at least. Reads the segment table once.
  //
  // Errors: those of the index.
  absl::Status Begin(const std::vector<SegmentFile>& files,
                     const std::map<uint64_t, uint64_t>& ends);

  // What LookAgain found.
  struct Changes {
    std::vector<SegmentId> vanished;    // Of `present`: their files have gone.
    std::vector<SegmentFile> returned;  // Were missing, and no longer are.
  };
  // Looks into the directory again. `present` has the numbers of the segments
  // whose files were there before; only the names of files are compared.
  //
  // Errors: those of the directory and the index.
  absl::StatusOr<Changes> LookAgain(const std::vector<uint64_t>& present);

  MissingSegments Missing() const;
  bool IsMissing(uint64_t number) const { return missing_.contains(number); }

 private:
  struct Segment {
    uint64_t end_bytes = 0;               // The file has as many at least.
    std::map<uint64_t, uint64_t> needed;  // Payload bytes, by run.
  };

  // Payload of the run in the segment that was not given up, of `live_bytes`
  // that the index refers to.
  uint64_t NeededBytes(SegmentId segment, RunId run, uint64_t live_bytes);
  absl::Status Measure(uint64_t number, Segment& segment);
  // Passes on how many bytes each run misses.
  void Publish();

  ChunkIndex& index_;
  Env& env_;
  const std::string segment_directory_;
  std::map<uint64_t, Segment> missing_;
  std::map<uint64_t, uint64_t> published_;  // Bytes, by run.
};

}  // namespace msitd::storage
