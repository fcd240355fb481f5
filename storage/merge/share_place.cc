// SPDX-License-Identifier: Apache-2.0
#include "storage/merge/share_place.h"

#include "protos/status/status.h"

namespace msitd::storage {

absl::Status ToMergedPlaces(size_t share, TensorInfo& tensor) {
  for (PartInfo& part : tensor.parts) {
    if (part.place.file >= kShareFileEnd) {
      return MakeStatus(absl::StatusCode::kInternal,
                        "file {} of a part is numbered too high",
                        part.place.file);
    }
    part.place.file |= static_cast<uint64_t>(share) << kShareShift;
  }
  return absl::OkStatus();
}

}  // namespace msitd::storage
