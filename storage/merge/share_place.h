// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "storage/face/types.h"

// Encodes the share of a merged run in the location of a part, in the upper
// bits of the file number.
namespace msitd::storage {

inline constexpr int kShareShift = 52;
inline constexpr uint64_t kShareFileEnd = uint64_t{1} << kShareShift;

// Converts the locations of all parts of the tensor from share `share` to the
// merged run. Returns INTERNAL if a file number of the share is too large.
absl::Status ToMergedPlaces(size_t share, TensorInfo& tensor);

constexpr size_t ShareOf(const PartInfo& part) {
  return static_cast<size_t>(part.place.file >> kShareShift);
}

// Returns the part with its location within its share.
constexpr PartInfo ToSharePlace(PartInfo part) {
  part.place.file &= kShareFileEnd - 1;
  return part;
}

}  // namespace msitd::storage
