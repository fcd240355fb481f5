// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/check/attachment_check.h"
#include "storage/check/store_view.h"

namespace msitd::storage {

// A difference between the contents of a store and the data that was written.
struct StoreProblem {
  enum class Cause {
    kOther,
    // Bytes do not match their hash, and only the daemon could have changed
    // them before they were written.
    kDisk,
    // Bytes do not match their hash, and the producer could have changed them
    // too, because it shared their memory.
    kProducerOrDisk,
  };

  std::string file;
  uint64_t offset = 0;
  std::string what;
  Cause cause = Cause::kOther;
};

// A stream with frames that do not match their hashes. Many mismatches in one
// stream and none in others indicate a fault of its producer.
struct StreamMismatch {
  std::string run;
  int32_t rank = 0;
  uint64_t stream_id = 0;
  std::string memory;  // "shared", "own", or "unknown" for earlier versions.
  uint64_t frame_count = 0;
  uint64_t mismatch_count = 0;
};

struct StoreCheckReport {
  uint64_t segment_count = 0;
  uint64_t frame_count = 0;
  uint64_t record_count = 0;
  uint64_t payload_bytes = 0;
  // Records that share the bytes of a later record, with which their bytes are
  // checked.
  uint64_t shared_count = 0;
  uint64_t entry_count = 0;
  // Entries without a record: their bytes were discarded, and the segment was
  // removed.
  uint64_t recordless_count = 0;
  AttachmentCheckReport attachments;
  // Frames that the next Open of the store will index.
  uint64_t unindexed_frame_count = 0;
  // Records that were never acknowledged and are incomplete or not indexed, and
  // such tails of segments.
  uint64_t torn_count = 0;
  uint64_t problem_count = 0;
  // Number of problems by cause.
  uint64_t disk_count = 0;
  uint64_t producer_or_disk_count = 0;
  // Streams with problems of these two causes, in the order in which they were
  // found.
  std::vector<StreamMismatch> mismatches;
};

// Checks every frame head, every record hash, every reference of the index and
// every attachment. Calls `report` for each problem, ordered by file and
// offset, then by key, then by attachment. Uses 8 bytes of memory for each
// record.
//
// With a live view, the daemon may have deleted a run, discarded bytes or
// shared bytes during the check; differences that result from this are not
// problems. Therefore problems are checked again with a later view, about
// kLiveProblemsMax at a time.
inline constexpr size_t kLiveProblemsMax = 10'000;

// Errors: those of reading. A store that can be read is checked to its end.
absl::StatusOr<StoreCheckReport> CheckStore(
    StoreView& store, const std::function<void(const StoreProblem&)>& report);

}  // namespace msitd::storage
