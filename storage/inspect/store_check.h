// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "storage/inspect/store_view.h"

namespace msitd::storage {

// Something in a store that is not as it was written.
struct StoreProblem {
  enum class Cause {
    kOther,
    // Bytes that do not match their hash, and that nobody but the daemon could
    // change before they were written.
    kDisk,
    // The same, but their producer could too: it shared their memory.
    kProducerOrDisk,
  };

  std::string file;
  uint64_t offset = 0;
  std::string what;
  Cause cause = Cause::kOther;
};

// Frames of a stream of which some do not match their hashes. Many of one
// stream, and none of others beside them, point to its producer.
struct StreamMismatch {
  std::string run;
  int32_t rank = 0;
  uint64_t stream_id = 0;
  std::string memory;  // "shared", "own", or "unknown" of earlier versions.
  uint64_t frame_count = 0;
  uint64_t mismatch_count = 0;
};

struct StoreCheckReport {
  uint64_t segment_count = 0;
  uint64_t frame_count = 0;
  uint64_t record_count = 0;
  uint64_t payload_bytes = 0;
  // Records whose bytes are those of a later one, where they are checked.
  uint64_t shared_count = 0;
  uint64_t entry_count = 0;
  // Those of them without a record: their bytes were given up, and the segment
  // has gone.
  uint64_t recordless_count = 0;
  // Frames that the next Open of the store puts into the index.
  uint64_t unindexed_frame_count = 0;
  // Records that were never acknowledged and are not whole, or not in the
  // index; and tails of segments of which that is true.
  uint64_t torn_count = 0;
  uint64_t problem_count = 0;
  // Those of them with such a cause.
  uint64_t disk_count = 0;
  uint64_t producer_or_disk_count = 0;
  // Streams with problems of these kinds, as they were seen first.
  std::vector<StreamMismatch> mismatches;
};

// Checks every frame head, every record hash and every reference of the index,
// and calls `report` for each problem, in the order of files and offsets, then
// of keys. Keeps 8 bytes of memory for each record.
//
// On a live view, what a deletion, or the giving up or sharing of bytes,
// explains is no problem: problems are looked at again, about kLiveProblemsMax
// at a time.
inline constexpr size_t kLiveProblemsMax = 10'000;

// Errors: those of reading; a store that can be read is checked to its end.
absl::StatusOr<StoreCheckReport> CheckStore(
    StoreView& store, const std::function<void(const StoreProblem&)>& report);

}  // namespace msitd::storage
