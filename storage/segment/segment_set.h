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

// A segment file as it was found in the directory.
struct SegmentFile {
  SegmentId id{};
  std::string path;
  uint64_t size_bytes = 0;
  uint64_t disk_bytes = 0;  // Without holes, and without room asked for ahead.
  // Nothing if the header page is short or damaged; `header_error` says how.
  // Frames describe themselves, so they can be read all the same.
  std::optional<SegmentHeader> header;
  std::string header_error;

  // True if the header is sound and says that the file is of another store,
  // or was another segment.
  bool IsForeignTo(uint64_t store_id) const {
    return header.has_value() &&
           (header->store_id != store_id || header->segment_id != ToNumber(id));
  }
};

// Returns the segment files of `directory` in the order of their ids. Other
// files are passed over, and so are those that `may_vanish` since they were
// listed.
absl::StatusOr<std::vector<SegmentFile>> ListSegments(
    Env& env, const std::string& directory, bool may_vanish = false);

// Where segments end by what the header of the segment after them says, by
// the number of the segment.
std::map<uint64_t, uint64_t> KnownEnds(const std::vector<SegmentFile>& files,
                                       uint64_t store_id);

}  // namespace msitd::storage
