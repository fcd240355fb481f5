// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "storage/face/types.h"

namespace msitd::storage {

// Maintenance of a store, and its state. Each call executes one bounded step;
// callers repeat it until it reports that nothing is left to do now.
// Thread-safe.
class Upkeep {
 public:
  virtual ~Upkeep() = default;

  // Discards bytes of tensors that neither `policy` nor the settings of their
  // run keep. Within a run, bytes are discarded frame by frame in order of
  // arrival: a frame that is not due protects all later frames. Tensors whose
  // bytes were discarded remain listed, with `has_bytes` false, and ReadPart
  // returns TENSOR_EXPIRED.
  //
  // Bytes in the current segment can be discarded only after it is sealed. If
  // such bytes are due, this call seals the segment if it is at least
  // kSealBytesMin long or kSealAgeMinNs old.
  //
  // Blocks on the disk. Blocks Append only for the time it takes to close a
  // file. Errors: those of the disk and the index; the next call continues.
  static constexpr uint64_t kSealBytesMin = uint64_t{64} << 20;
  static constexpr int64_t kSealAgeMinNs = int64_t{60} * 1'000'000'000;
  virtual absl::StatusOr<RetentionStep> Retain(
      const RetentionPolicy& policy) = 0;

  // Makes equal parts of the same run share their bytes, so that they are
  // stored only once. Results of the store do not change. Examines each segment
  // once, after its last frame was written.
  //
  // Blocks on the disk. Blocks Append only for the update of the index. Errors:
  // those of the disk and the index; the next call continues.
  virtual absl::StatusOr<ShareStep> Share() = 0;

  // Removes data from the index that is no longer needed. Deleted runs leave
  // names without tensors, comparisons with their rows, and the space of
  // entries. Attachments that were deleted, replaced or never committed leave
  // their bytes. Returns true when nothing is left to do now. Blocks Append
  // only for as long as some hundred names take.
  //
  // Errors: those of the index; the next call continues.
  virtual absl::StatusOr<bool> Tidy() = 0;

  // Reads stored bytes again and compares them with their hashes, in rounds
  // over the segments that receive no more frames. A round continues after a
  // restart. Faults are logged and reported in Stats().
  //
  // Blocks on the disk. Errors: those of the disk and the index; the next call
  // continues.
  virtual absl::StatusOr<VerifyStep> Verify(const VerifyPolicy& policy) = 0;

  virtual StoreStats Stats() = 0;
};

}  // namespace msitd::storage
