// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/index/chunk_index.h"
#include "storage/rebuild/index_salvage.h"
#include "storage/rebuild/run_choice.h"
#include "storage/segment/segment_set.h"

namespace msitd::storage {

struct OldEntriesCounts {
  uint64_t kept_count = 0;
  // Entries with a name that cannot be read.
  uint64_t lost_count = 0;
};

// Takes the entries from the old index whose segments do not exist any more:
// the bytes of their tensors were given up, but their summaries and hashes
// stay. Entries that came from frames are left as they are.
absl::StatusOr<OldEntriesCounts> TakeOldEntries(
    IndexSalvage& old, const RunChoice& runs,
    const std::vector<SegmentFile>& files, ChunkIndex& index);

}  // namespace msitd::storage
