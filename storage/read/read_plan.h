// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "storage/face/types.h"

namespace msitd::storage {

// Maximum length of a read that joins several parts and the gaps between them.
// A longer part is read separately.
inline constexpr uint64_t kJoinedReadBytesMax = uint64_t{2} << 20;
// Maximum length of a gap that is read over. Reading such a gap costs less than
// another read.
inline constexpr uint64_t kJoinedGapBytesMax = uint64_t{64} << 10;

// Plan for reading some parts into one buffer.
//
// The parts are sorted by location, and each part joins the previous read if
// both limits above permit it; reads cover whole pages. The reads are then
// ordered by when the caller will request their parts, so that the first parts
// are available first.
struct ReadPlan {
  // Whole pages of a file.
  struct Read {
    uint64_t file = 0;
    uint64_t offset = 0;
    uint64_t bytes = 0;
    uint64_t buffer_offset = 0;
  };
  // Location of a part in the buffer.
  struct BufferPlace {
    static constexpr size_t kNoRead = std::numeric_limits<size_t>::max();
    // Index into `reads`; kNoRead if the part has no bytes.
    size_t read = kNoRead;
    uint64_t buffer_offset = 0;
  };

  std::vector<BufferPlace> places;  // One element for each of the first parts,
                                    // as many as fit.
  std::vector<Read> reads;          // In the order in which parts need them.
  uint64_t buffer_bytes = 0;
};

// Plans reads of the first parts of `parts`: at most kBatchPartsMax, halved
// until they fit into kBatchBytesMax, but never fewer than one if there is one.
ReadPlan PlanReads(std::span<const PartInfo> parts);

}  // namespace msitd::storage
