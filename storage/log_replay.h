// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "protos/os/aligned_buffer.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_scanner.h"
#include "storage/segment/segment_set.h"

namespace msitd::storage {

// Frames of runs that the index does not have are skipped, because these runs
// were deleted. Used by the holder of the store's append lock, or by the only
// user of the index.
class LogReplay {
 public:
  // A position where no frame can be read, or an incomplete frame.
  struct Fault {
    std::string file;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    // False for the torn end of a segment, which was never acknowledged.
    bool is_damage = false;
    std::string what;
  };

  struct Counts {
    uint64_t recovered = 0;  // Frames.
    uint64_t torn = 0;
    uint64_t corrupt = 0;
  };

  LogReplay(ChunkIndex& index, Env& env)
      : index_(index), env_(env), filter_(index.streams()) {}

  // Reads the position of the index. `files` must be all segments of the store.
  absl::Status Begin(const std::vector<SegmentFile>& files);

  // All bytes before `position` are known to be durable from another source.
  void set_durable(const LogPosition& position) { durable_ = position; }

  // Adds the frames of one segment. Segments must be added in the order of
  // their numbers; those before start().segment_id have no new frames.
  absl::Status Add(const SegmentFile& file);
  // Returns the numbers of the segments that have acknowledged frames after the
  // position of the index, but whose files are missing or truncated.
  //
  // Frames after such a segment must wait for it, because frames of a segment
  // are never read again after the position has passed the segment.
  std::vector<uint64_t> Awaited(const std::vector<SegmentFile>& files,
                                const NewestSegment& newest) const;
  // Moves the position of the index to the last frame and makes the index
  // durable, if any frames were found.
  absl::Status Finish();

  // True if the file has no frame and never had an acknowledged one.
  bool IsVoid(const SegmentFile& file) const;

  // How much of the log was indexed at Begin, and how much has been read since.
  const LogPosition& start() const { return start_; }
  const LogPosition& reached() const { return reached_; }
  const std::map<uint64_t, uint64_t>& known_ends() const { return known_ends_; }
  const Counts& counts() const { return counts_; }

 private:
  absl::Status AddFrame(File& file, FoundFrame frame, bool is_durable);
  // Counts a frame of a deleted run. If the run is hidden but not emptied,
  // records that it uses the segment, so that emptying the run removes the
  // segment.
  absl::Status AddGoneFrame(uint64_t segment, RunId run);
  absl::Status Commit();
  void Report(const Fault& fault);

  ChunkIndex& index_;
  Env& env_;
  LogPosition start_;
  LogPosition reached_;
  LogPosition durable_;
  std::map<uint64_t, uint64_t> known_ends_;
  StreamFilter filter_;
  // Streams with a torn chunk in the current segment. Their later chunks in it
  // were never acknowledged, and the producer resends from the torn chunk on.
  // Other streams are not affected, so a producer that changed its memory
  // cannot harm them.
  std::set<StreamKey> torn_streams_;

  // Frames to be added to the index.
  std::vector<FoundFrame> frames_;
  std::vector<RunBrief> runs_;
  size_t record_count_ = 0;
  uint64_t head_bytes_ = 0;

  AlignedBuffer payload_;
  Counts counts_;
  bool has_news_ = false;
};

}  // namespace msitd::storage
