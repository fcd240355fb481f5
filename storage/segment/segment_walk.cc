// SPDX-License-Identifier: Apache-2.0
#include "storage/segment/segment_walk.h"

#include <algorithm>
#include <utility>

#include "protos/status/status.h"

namespace msitd::storage {
namespace {

// Returns the largest durable_bytes of the frames that `scanner` finds.
absl::StatusOr<uint64_t> Survey(SegmentScanner scanner) {
  uint64_t mark = 0;
  while (true) {
    MSITD_ASSIGN_OR_RETURN(const ScanStep step, scanner.Next());
    if (!step.frame.has_value()) return mark;
    mark = std::max(mark, step.frame->chunk.header().durable_bytes);
  }
}

}  // namespace

absl::StatusOr<SegmentWalk> SegmentWalk::Begin(
    File& file, const SegmentScanner::ScanRange& place,
    std::optional<uint64_t> known_end, uint64_t durable_min) {
  SegmentScanner::ScanRange inside = place;
  if (known_end.has_value()) {
    inside.end_bytes = std::min(place.end_bytes, *known_end);
    return SegmentWalk(SegmentScanner(file, inside), inside.end_bytes,
                       *known_end);
  }
  MSITD_ASSIGN_OR_RETURN(const uint64_t mark,
                         Survey(SegmentScanner(file, inside)));
  return SegmentWalk(SegmentScanner(file, inside), inside.end_bytes,
                     std::max(mark, durable_min));
}

SegmentWalk::Step SegmentWalk::GapStep(SegmentGap gap) {
  Step step;
  step.kind =
      gap.offset < durable_mark_ ? Step::Kind::kDamage : Step::Kind::kTail;
  step.gap = std::move(gap);
  if (step.kind == Step::Kind::kTail) {
    is_finished_ = true;
    pending_.reset();
  }
  return step;
}

SegmentWalk::Step SegmentWalk::FrameStep(FoundFrame frame) {
  if (!frame.is_complete) {
    is_finished_ = true;
    return GapStep({frame.offset, size_bytes_ - frame.offset,
                    "the file ends inside the payload"});
  }
  Step step;
  step.kind = Step::Kind::kFrame;
  step.is_durable = frame.end() <= durable_mark_;
  step.frame = std::move(frame);
  return step;
}

absl::StatusOr<SegmentWalk::Step> SegmentWalk::Next() {
  if (is_finished_) return Step();
  if (pending_.has_value()) {
    FoundFrame frame = *std::move(pending_);
    pending_.reset();
    return FrameStep(std::move(frame));
  }
  MSITD_ASSIGN_OR_RETURN(ScanStep found, scanner_.Next());
  if (found.gap.has_value()) {
    pending_ = std::move(found.frame);
    return GapStep(*std::move(found.gap));
  }
  if (found.frame.has_value()) return FrameStep(*std::move(found.frame));
  is_finished_ = true;
  if (size_bytes_ < durable_mark_) {
    return GapStep({size_bytes_, durable_mark_ - size_bytes_,
                    "the file is shorter than the segment was"});
  }
  return Step();
}

}  // namespace msitd::storage
