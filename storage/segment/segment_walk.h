// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "storage/segment/segment_scanner.h"

namespace msitd::storage {

// Iterates over one segment and distinguishes acknowledged frames from frames
// that were being written when the machine lost power.
//
// The durable mark is the end of this segment as stated by the next segment, or
// the largest `durable_bytes` of any of its frames. A gap before the mark is
// damage: durable bytes were corrupted, and the frames after the gap are still
// valid. A gap after the mark is the torn tail, where the log ends.
//
// Thread-compatible. The file is borrowed.
class SegmentWalk {
 public:
  struct Step {
    enum class Kind { kFrame, kDamage, kTail, kEnd };
    Kind kind = Kind::kEnd;
    std::optional<FoundFrame> frame;  // Set for kFrame.
    // For kFrame: the frame ends before the durable mark, so its payload is
    // complete unless it was corrupted later.
    bool is_durable = false;
    SegmentGap gap;  // Set for kDamage and kTail.
  };

  // `place.end_bytes` is the size of the file. `known_end` is the end of the
  // segment, if the header of the next segment states it. Bytes before
  // `durable_min` are known to be durable from another source.
  static absl::StatusOr<SegmentWalk> Begin(
      File& file, const SegmentScanner::ScanRange& place,
      std::optional<uint64_t> known_end, uint64_t durable_min);

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
  // A frame found after a gap; the gap is reported first.
  std::optional<FoundFrame> pending_;
  bool is_finished_ = false;
};

}  // namespace msitd::storage
