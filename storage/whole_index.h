// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "storage/env/env.h"
#include "storage/index/chunk_index.h"
#include "storage/segment/segment_set.h"

namespace msitd::storage {

// Returns DATA_LOSS, with the evidence, if the segments prove that the index
// has lost durable entries.
//
// RocksDB opens an index whose log is truncated or whose manifest is too old as
// if the last entries had never been written. Frames of the runs in these
// entries would then count as frames of deleted runs. Some entries become
// durable before a frame can, so that frames reveal that the index was once
// newer:
//
// - A run is in the index before its first frame is written, so no frame has a
//   run number that the index has not assigned yet.
// - The newest segment is in the index before its first frame is acknowledged.
//   A later segment had acknowledged frames if it has a second Append, or if
//   the next segment states its end.
//
// A crash of the process or a power failure causes neither. Lost entries that
// no frame followed, such as a run without frames, cannot be detected this way.
//
// Reads the heads of the frames after the position of the index; writes
// nothing. Other errors: those of reading. If the log waits for a segment, that
// segment and the later ones are not needed yet, so one that cannot be read is
// skipped with a warning.
absl::Status CheckIndexIsWhole(ChunkIndex& index, Env& env,
                               const std::vector<SegmentFile>& files);

}  // namespace msitd::storage
