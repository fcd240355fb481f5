// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "storage/face/types.h"

namespace msitd::storage {

// A read joins parts, and the gaps between them, up to this length. A longer
// part is a read by itself.
inline constexpr uint64_t kJoinedReadBytesMax = uint64_t{2} << 20;
// Longer gaps are not joined: reading a gap of up to this length costs less
// than another read.
inline constexpr uint64_t kJoinedGapBytesMax = uint64_t{64} << 10;

// How to read some parts into one buffer.
//
// The parts are sorted by place, and each joins the read before it if both
// limits above allow it; reads cover whole pages. The reads are then put into
// the order in which the caller will ask for their parts, so that the first
// parts come first.
struct ReadPlan {
  // Whole pages of a file.
  struct Read {
    uint64_t file = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t buffer_offset = 0;
  };
  // Where a part will be.
  struct Place {
    static constexpr size_t kNoRead = std::numeric_limits<size_t>::max();
    // An index of `reads`; kNoRead if the part has no bytes.
    size_t read = kNoRead;
    uint64_t buffer_offset = 0;
  };

  std::vector<Place> places;  // Of the first parts, as many as fit.
  std::vector<Read> reads;    // In the order in which parts need them.
  uint64_t buffer_bytes = 0;
};

// Plans reads of the first parts of `parts`: at most kBatchPartsMax, and halved
// until they fit kBatchBytesMax; at least one if there is one.
ReadPlan PlanReads(std::span<const PartInfo> parts);

}  // namespace msitd::storage
