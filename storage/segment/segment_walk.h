// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "storage/segment/segment_scanner.h"

namespace msitd::storage {

// Walks over one segment and tells acknowledged frames from those that were
// being written when the power went.
//
// The durable mark is where the next segment says that this one ends, or the
// largest `durable_bytes` that a frame of it carries. A gap before the mark is
// damage: durable bytes went bad, and the frames behind the gap still count. A
// gap behind the mark is the torn tail: the log ends there.
//
// Thread-compatible. The file is borrowed.
class SegmentWalk {
 public:
  struct Step {
    enum class Kind { kFrame, kDamage, kTail, kEnd };
    Kind kind = Kind::kEnd;
    std::optional<FoundFrame> frame;  // kFrame.
    // kFrame: the frame ends before the durable mark, so its payload is whole
    // unless it went bad.
    bool is_durable = false;
    SegmentGap gap;  // kDamage and kTail.
  };

  // `place.end_bytes` is the size of the file. `known_end` is where the segment
  // ends, if the next segment's header says so. Bytes before `durable_min` are
  // known to be durable from elsewhere.
  static absl::StatusOr<SegmentWalk> Begin(File& file,
                                           const SegmentScanner::Place& place,
                                           std::optional<uint64_t> known_end,
                                           uint64_t durable_min);

  // Errors: those of reading.
  absl::StatusOr<Step> Next();

  uint64_t durable_mark() const { return durable_mark_; }

 private:
  SegmentWalk(SegmentScanner scanner, uint64_t size_bytes,
              uint64_t durable_mark)
      : scanner_(std::move(scanner)),
        size_bytes_(size_bytes),
        durable_mark_(durable_mark) {}

  Step FrameStep(FoundFrame frame);
  Step GapStep(SegmentGap gap);

  SegmentScanner scanner_;
  uint64_t size_bytes_;
  uint64_t durable_mark_;
  // A frame found behind a gap; the gap is reported first.
  std::optional<FoundFrame> pending_;
  bool is_finished_ = false;
};

}  // namespace msitd::storage
