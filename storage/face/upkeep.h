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
  // not keep. Within a run they go in the order in which they came, frame by
  // frame: one that is not due keeps those behind it. Tensors of which bytes
  // are gone stay, with `has_bytes` false, and ReadPart gives TENSOR_EXPIRED.
  //
  // What lies in the segment in use goes once that is sealed, which this does
  // if it is kSealBytesMin long or kSealAgeMinNs old.
  //
  // Blocks on the disk, and Append for no longer than a file takes to close.
  // Errors: those of the disk and the index; the next call goes on.
  static constexpr uint64_t kSealBytesMin = uint64_t{64} << 20;
  static constexpr int64_t kSealAgeMinNs = int64_t{60} * 1'000'000'000;
  virtual absl::StatusOr<RetentionStep> Retain(
      const RetentionPolicy& policy) = 0;

  // Has parts of the same run that are equal share their bytes, so that they
  // take the room of one. Nothing that can be asked of the store changes for
  // that. Looks at each segment once, when it takes no more frames.
  //
  // Blocks on the disk, and Append on the index alone. Errors: those of the
  // disk and the index; the next call goes on.
  virtual absl::StatusOr<ShareStep> Share() = 0;

  // Takes what deleted runs left out of the index: names that no tensor has any
  // more, comparisons of theirs with their rows, and the room of entries. True
  // once nothing is left to do now. Holds up Append for no longer than some
  // hundred names take.
  //
  // Errors: those of the index; the next call goes on.
  virtual absl::StatusOr<bool> Tidy() = 0;

  virtual StoreStats Stats() = 0;
};

}  // namespace msitd::storage
