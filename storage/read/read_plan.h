// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "storage/face/types.h"

namespace msitd::storage {

// A read takes parts with gaps between them as long as it is no longer than
// this; a part that is longer is one read.
inline constexpr uint64_t kJoinedReadBytesMax = uint64_t{2} << 20;
// Reading a gap costs less than another read where it is no longer.
inline constexpr uint64_t kJoinedGapBytesMax = uint64_t{64} << 10;

// How to read some parts, all into one buffer.
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

// Plans reads of as many of `parts`, from the first, as kBatchBytesMax and
// kBatchPartsMax allow: at least one, if there is one.
ReadPlan PlanReads(std::span<const PartInfo> parts);

}  // namespace msitd::storage
