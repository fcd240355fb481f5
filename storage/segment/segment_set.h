// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/env/env.h"
#include "storage/segment/segment_format.h"

namespace msitd::storage {

// A segment file found in the directory.
struct SegmentFile {
  SegmentId id{};
  std::string path;
  uint64_t size_bytes = 0;
  uint64_t disk_bytes = 0;  // Allocated bytes, excluding holes and preallocated
                            // space.
  // Nothing if the header page is too short or damaged; `header_error`
  // describes why. The frames can be read regardless, because they describe
  // themselves.
  std::optional<SegmentHeader> header;
  std::string header_error;

  // True if the header is valid but names another store or another segment.
  bool IsForeignTo(uint64_t store_id) const {
    return header.has_value() &&
           (header->store_id != store_id || header->segment_id != ToNumber(id));
  }
};

// Returns the segment files of `directory` ordered by id. Ignores other files.
// With `may_vanish`, also ignores files that were removed after they were
// listed.
absl::StatusOr<std::vector<SegmentFile>> ListSegments(
    Env& env, const std::string& directory, bool may_vanish = false);

// Reads the size and the header of a segment file. A damaged header is not an
// error.
absl::StatusOr<SegmentFile> ExamineSegment(Env& env,
                                           const std::string& directory,
                                           SegmentId id);

// Returns the end of each segment that the header of its successor states, by
// number of the segment.
std::map<uint64_t, uint64_t> KnownEnds(const std::vector<SegmentFile>& files,
                                       uint64_t store_id);

}  // namespace msitd::storage
