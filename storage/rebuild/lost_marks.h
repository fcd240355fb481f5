// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/env/env.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_set.h"

namespace msitd::storage {

struct LostMarksCounts {
  uint64_t shared_count = 0;    // Shared bytes whose place was found again.
  uint64_t given_up_bytes = 0;  // Payload that counts as given up again.
};

// Finds out from the payloads which bytes were given up and which are shared,
// when the entries of the index that say so are lost. The index has the entries
// of all frames, and no places of shared bytes.
//
// Both leave holes, which read as zeros. Bytes of a record that came again
// later in the run, and are sound there, are shared. Other bytes that read as
// zeros and do not match their hash were given up, if nothing before them in
// their run and segment has any other bytes: bytes are given up in the order
// of the log. A disk that lost pages looks the same.
//
// Reads all payloads once, and segments with unexplained holes twice.
absl::StatusOr<LostMarksCounts> FindLostMarks(
    ChunkIndex& index, Env& env, const std::vector<SegmentFile>& files);

}  // namespace msitd::storage
