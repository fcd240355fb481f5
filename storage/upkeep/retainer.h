// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/env/env.h"
#include "storage/face/types.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_scanner.h"

namespace msitd::storage {

// Discards bytes of tensors
// (docs/decisions/0007-bytes-go-in-the-order-of-the-log.md).
//
// Each run has a front: its first frame whose bytes are kept. A step advances
// the front of one run. It selects a run whose front frame is due by a limit of
// that run; if there is none and the node uses too much disk, it selects the
// run whose front is first in the log. The step durably marks the frames in the
// index, then frees their space in the file system. After a crash in between,
// the next step begins by freeing the space.
//
// The log is not ordered by run, so finding the fronts requires reading the
// heads of frames. All runs share one pass over each segment: a scan for one
// run remembers the first frames that it finds of other runs, and the next scan
// starts where it ended. The index determines where the first pass must begin.
//
// Must be used by one thread at a time. Accesses only segments that receive no
// more frames and whose entries are on disk, so that recovery never needs
// discarded bytes.
class Retainer {
 public:
  Retainer(ChunkIndex& index, Env& env, std::string segment_directory)
      : index_(index),
        env_(env),
        segment_directory_(std::move(segment_directory)) {}

  // State of the store.
  struct Room {
    uint64_t excess_bytes = 0;    // Bytes on disk above the limits of the node.
    uint64_t sealed_end = 0;      // Lower segments receive no more frames.
    uint64_t open_end_bytes = 0;  // Acknowledged bytes in the current segment.
    int64_t now_ns = 0;
    // See AgeClock::Reading.
    int64_t steady_since_ns = 0;
    int64_t clock_set_ns = 0;
  };

  struct Outcome {
    uint64_t expired_bytes = 0;
    bool is_done = true;
    // True if bytes that are due are in the current segment.
    bool wants_seal = false;
    // True if something is kept only because ages count from `steady_since_ns`
    // at the earliest.
    bool holds_back = false;
    // The segment whose size on disk changed, and its new size.
    std::optional<std::pair<SegmentId, uint64_t>> changed;
  };

  // Examines at most kHeadsPerStep frames, and discards bytes of one run in one
  // segment, at most kFramesPerStep frames.
  //
  // Errors: those of the file system and of the index. The next call continues.
  absl::StatusOr<Outcome> Step(const RetentionPolicy& policy, const Room& room);

  // Returns the segments whose files have no kept bytes. A segment stays in the
  // set until Forget.
  const std::set<uint64_t>& drained() const { return drained_; }
  void Forget(uint64_t segment);

 private:
  static constexpr int kHeadsPerStep = 4096;
  static constexpr int kFramesPerStep = 256;
  // Maximum number of frames that passes remember; beyond it, all passes start
  // again.
  static constexpr size_t kPassFramesMax = 1 << 16;

  struct Frame {
    uint64_t offset = 0;
    uint64_t end = 0;
    uint64_t record_bytes = 0;
    uint64_t payload_span = 0;  // On disk.
    int64_t receive_time_ns = 0;
    int64_t token_end = 0;
  };
  // Start of the kept bytes of a run.
  struct Front {
    uint64_t segment = 0;
    uint64_t offset = 0;         // No kept frame is before it.
    std::optional<Frame> frame;  // The first kept frame; nothing if it was not
                                 // found yet.
  };
  // Frames that scans have found in a segment before `end`.
  struct Pass {
    uint64_t end = 0;
    // The first frame of each run that was kept when the pass found it.
    std::unordered_map<uint64_t, Frame> frames;
  };
  // Decides whether frames of one run are due.
  struct Dues {
    RetentionLimits limits;
    uint64_t excess_bytes = 0;
    uint64_t kept_bytes = 0;
    int64_t token_end = 0;
    int64_t now_ns = 0;
    int64_t steady_since_ns = 0;
    int64_t clock_set_ns = 0;

    // Returns the time from which the age of the frame counts.
    int64_t AgeBegin(const Frame& frame) const {
      return frame.receive_time_ns > now_ns
                 ? clock_set_ns
                 : std::max(frame.receive_time_ns, steady_since_ns);
    }
    bool IsDue(const Frame& frame) const;
    bool IsHeldBack(const Frame& frame) const;
    void Take(const Frame& frame);
  };
  struct Choice {
    RunId run{};
    Front* front = nullptr;
    Dues dues;
  };

  static Frame Describe(const FoundFrame& found);
  absl::StatusOr<std::optional<Choice>> Choose(const RetentionPolicy& policy,
                                               const Room& room,
                                               Outcome& outcome);
  // Sets the front of every run to the first segment that may have a kept frame
  // of it.
  void PlaceFronts(const std::vector<RunBrief>& runs, const Room& room);
  // Finds the first kept frame of the run, unless heads_left_ runs out first.
  absl::Status Look(RunId run, const Room& room, Front& front);
  absl::Status LookInSegment(RunId run, const Room& room, uint64_t end,
                             Front& front);
  // The first frame of the run at or after front.offset, if there is one before
  // `end`. kUnknown if heads_left_ was used up first.
  struct Search {
    enum class Result { kFound, kNone, kNoFile, kUnknown };
    Result result = Result::kUnknown;
    Frame frame{};  // Valid for kFound.
  };
  absl::StatusOr<Search> SearchSegment(RunId run, uint64_t end,
                                       const Front& front);
  void Keep(uint64_t segment, Pass& pass, RunId run, const FoundFrame& found);
  absl::Status Expire(const Choice& choice, const Room& room, Outcome& outcome);
  // Frees the space of the marked bytes.
  absl::Status Free(SegmentId segment, RunId run, Outcome& outcome);
  absl::Status EnterDrained(SegmentId segment);
  absl::Status EnsureIndexed(uint64_t segment, const Room& room);

  SegmentScanner Scanner(File& file, uint64_t segment, uint64_t begin,
                         uint64_t end) const;
  std::string PathOf(uint64_t segment) const;

  ChunkIndex& index_;
  Env& env_;
  const std::string segment_directory_;

  std::unordered_map<uint64_t, Front> fronts_;
  // Runs that are not in fronts_ have no frame in lower segments; nothing
  // before the first step.
  std::optional<uint64_t> fronts_end_;
  std::unordered_map<uint64_t, Pass> passes_;
  size_t pass_frame_count_ = 0;  // In all of passes_.
  std::set<uint64_t> drained_;
  bool knows_drained_ = false;
  uint64_t indexed_end_ = 0;  // The index has segments below on disk.
  int heads_left_ = 0;
};

}  // namespace msitd::storage
