// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "storage/face/types.h"

// Places of parts say in which share of a merged run the part lies: in the
// upper bits of the number of the file.
namespace msitd::storage {

inline constexpr int kShareShift = 52;
inline constexpr uint64_t kShareFileEnd = uint64_t{1} << kShareShift;

// Changes the places of all parts from those of share `share` to those of the
// run. INTERNAL if the share numbers its files too high.
absl::Status ToMergedPlaces(size_t share, TensorInfo& tensor);

constexpr size_t ShareOf(const PartInfo& part) {
  return static_cast<size_t>(part.place.file >> kShareShift);
}

// Returns the part as its share knows it.
constexpr PartInfo ToSharePlace(PartInfo part) {
  part.place.file &= kShareFileEnd - 1;
  return part;
}

}  // namespace msitd::storage
