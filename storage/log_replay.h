// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
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

// Adds the frames of the log that the index does not have yet. After a crash
// these are the frames after the position of the index; for an index that was
// just made, they are all frames of the store.
//
// The replay reads the heads of frames. It reads a payload only if the frame
// may be torn, because nothing later in the log shows that it was synced.
//
// Frames of runs that the index does not have are passed over: the runs were
// deleted. Used by the holder of the store's append lock, or by the only user
// of the index.
class LogReplay {
 public:
  // A place where no frame can be read, or a frame that is not whole.
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

  // Reads the position of the index. `files` are all segments of the store.
  absl::Status Begin(const std::vector<SegmentFile>& files);

  // Called for each fault, which is logged as well.
  void set_on_fault(std::function<void(const Fault&)> on_fault) {
    on_fault_ = std::move(on_fault);
  }
  // Everything before `position` is known to be durable from elsewhere.
  void set_durable(const LogPosition& position) { durable_ = position; }

  // Adds the frames of one segment. Segments come in the order of their
  // numbers; those before start().segment_id have nothing new.
  absl::Status Add(const SegmentFile& file);
  // Returns the numbers of the segments that have acknowledged frames after the
  // position of the index, but whose files do not exist or are cut short.
  //
  // Frames after such a segment must wait for it: once the position has passed
  // a segment, nothing reads its frames again.
  std::vector<uint64_t> Awaited(const std::vector<SegmentFile>& files,
                                const NewestSegment& newest) const;
  // Moves the position of the index to the last frame and makes the index
  // durable, if anything was found.
  absl::Status Finish();

  // True if the file holds no frame and never held an acknowledged one.
  bool IsVoid(const SegmentFile& file) const;

  // How much of the log was in the index at Begin, and how much has been read
  // since.
  const LogPosition& start() const { return start_; }
  const LogPosition& reached() const { return reached_; }
  const std::map<uint64_t, uint64_t>& known_ends() const { return known_ends_; }
  const Counts& counts() const { return counts_; }

 private:
  absl::Status AddFrame(File& file, FoundFrame frame, bool is_durable);
  // Counts a frame of a deleted run. If the run is hidden but not emptied, the
  // segment counts as used by it, so that emptying the run removes the segment.
  absl::Status AddGoneFrame(uint64_t segment, RunId run);
  absl::Status Commit();
  void Report(const Fault& fault);

  ChunkIndex& index_;
  Env& env_;
  std::function<void(const Fault&)> on_fault_;
  LogPosition start_;
  LogPosition reached_;
  LogPosition durable_;
  std::map<uint64_t, uint64_t> known_ends_;
  StreamFilter filter_;
  // Streams of which a chunk was torn in the present segment. Their later
  // chunks there were never acknowledged, and the producer sends again from the
  // torn one on. Other streams go on, so a producer that rewrote its memory
  // harms nobody else.
  std::set<StreamKey> torn_streams_;

  // Frames to be put into the index.
  std::vector<FoundFrame> frames_;
  std::vector<RunBrief> runs_;
  size_t record_count_ = 0;
  uint64_t head_bytes_ = 0;

  AlignedBuffer payload_;
  Counts counts_;
  bool has_news_ = false;
};

}  // namespace msitd::storage
