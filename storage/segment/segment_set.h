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

  // True if the header is sound and names another store or another segment.
  bool IsForeignTo(uint64_t store_id) const {
    return header.has_value() &&
           (header->store_id != store_id || header->segment_id != ToNumber(id));
  }
};

// Returns the segment files of `directory` in the order of their ids. Other
// files are passed over. With `may_vanish`, so are files that have gone since
// they were listed.
absl::StatusOr<std::vector<SegmentFile>> ListSegments(
    Env& env, const std::string& directory, bool may_vanish = false);

// Reads size and header of the file of a segment, whatever is wrong with the
// header.
absl::StatusOr<SegmentFile> ExamineSegment(Env& env,
                                           const std::string& directory,
                                           SegmentId id);

// Returns, by the number of the segment, where a segment ends as the header of
// the next segment says.
std::map<uint64_t, uint64_t> KnownEnds(const std::vector<SegmentFile>& files,
                                       uint64_t store_id);

}  // namespace msitd::storage
