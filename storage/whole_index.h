// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "storage/env/env.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_set.h"

namespace msitd::storage {

// Returns DATA_LOSS if the segments prove that the index has lost entries that
// were durable, and says what proves it.
//
// RocksDB opens an index whose log is cut or whose manifest is too old as if
// the last entries had never been written. Frames of the runs in these entries
// would then count as frames of deleted runs. Some entries are durable before a
// frame can be, so these frames show that the index was newer once:
//
//   - A run is in the index before its first frame is written, so no frame has
//     a run number that the index has not given yet.
//   - The newest segment is in the index before its first frame is
//     acknowledged. A later segment that has a second Append, or whose end the
//     next segment knows, had acknowledged frames.
//
// A crash of the process or a loss of power leaves neither. Lost entries that
// no frame followed, such as a run without frames, cannot be found this way.
//
// Reads the heads of the frames after the position of the index; writes
// nothing. Other errors: those of reading. If the log waits for a segment, that
// one and those behind it are not needed yet: one of them that cannot be read
// is passed over with a warning.
absl::Status CheckIndexIsWhole(ChunkIndex& index, Env& env,
                               const std::vector<SegmentFile>& files);

}  // namespace msitd::storage
