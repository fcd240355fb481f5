// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "storage/face/types.h"

namespace msitd::storage {

// What keeps a store in shape, step by step, and how it stands. Steps are
// bounded: they are called again until they say that nothing is left to do now.
// Thread-safe.
class Upkeep {
 public:
  virtual ~Upkeep() = default;

  // Gives up bytes of tensors that `policy`, or what their run asks for, does
  // not keep. Within a run they go frame by frame, in the order in which they
  // came: a frame that is not due keeps all frames behind it. Tensors of which
  // bytes are gone stay, with `has_bytes` false, and ReadPart gives
  // TENSOR_EXPIRED.
  //
  // Bytes in the segment in use can go only once it is sealed. If such bytes
  // are due, this seals the segment when it is kSealBytesMin long or
  // kSealAgeMinNs old.
  //
  // Blocks on the disk, and Append for no longer than a file takes to close.
  // Errors: those of the disk and the index; the next call goes on.
  static constexpr uint64_t kSealBytesMin = uint64_t{64} << 20;
  static constexpr int64_t kSealAgeMinNs = int64_t{60} * 1'000'000'000;
  virtual absl::StatusOr<RetentionStep> Retain(
      const RetentionPolicy& policy) = 0;

  // Makes equal parts of the same run share their bytes, so that they take the
  // room of one. No answer of the store changes. Looks at each segment once,
  // when it takes no more frames.
  //
  // Blocks on the disk, and Append on the index alone. Errors: those of the
  // disk and the index; the next call goes on.
  virtual absl::StatusOr<ShareStep> Share() = 0;

  // Removes from the index what nobody needs any more. Deleted runs left names
  // that no tensor has, comparisons with their rows, and the room of entries;
  // attachments that were deleted, replaced or never committed left their
  // bytes. Returns true once nothing is left to do now. Holds up Append for no
  // longer than some hundred names take.
  //
  // Errors: those of the index; the next call goes on.
  virtual absl::StatusOr<bool> Tidy() = 0;

  // Reads stored bytes again and compares them with their hashes, in rounds
  // over the segments that take no more frames. A round goes on after a
  // restart. What is wrong is logged and is in Stats().
  //
  // Blocks on the disk. Errors: those of the disk and the index; the next call
  // goes on.
  virtual absl::StatusOr<VerifyStep> Verify(const VerifyPolicy& policy) = 0;

  virtual StoreStats Stats() = 0;
};

}  // namespace msitd::storage
