// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/env/env.h"
#include "storage/index/db/index_value.h"
#include "storage/segment/segment_set.h"

namespace msitd::storage {

// A run as its frames describe it.
struct LoggedRun {
  std::string name;
  int64_t first_receive_ns = 0;
  BytePlace first;  // Its first frame.
  uint64_t frame_count = 0;
};

// The runs that have frames in the segments, by their numbers.
using LoggedRuns = std::map<uint64_t, LoggedRun>;

// Returns the store id that most sound segment headers have; 0 if no header is
// sound.
uint64_t MostFrequentStoreId(const std::vector<SegmentFile>& files);

// Reads the heads of all frames of the store.
//
// Errors: those of reading. Bad bytes are passed over.
absl::StatusOr<LoggedRuns> SurveyLog(Env& env,
                                     const std::vector<SegmentFile>& files,
                                     uint64_t store_id);

}  // namespace msitd::storage
