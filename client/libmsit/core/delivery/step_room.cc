// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/delivery/step_room.h"

#include <algorithm>

#include "protos/base/limits.h"

namespace msitd::libmsit {

void StepRoom::Count(int64_t token, uint64_t bytes) {
  if (token_ && token > *token_) {
    largest_bytes_ = std::max(largest_bytes_, step_bytes_);
    step_bytes_ = 0;
    // A chunk is sealed when the next record does not fit, so chunks may be
    // only half full; in that case there is room for one step. Two more slots
    // are for a chunk that both steps share, and for one that has just been
    // begun.
    const uint64_t wanted = 2 * largest_bytes_ / kChunkPayloadBytesMax + 2;
    slot_count_ = std::clamp<uint64_t>(wanted, least_, most_);
  }
  token_ = std::max(token_.value_or(token), token);
  step_bytes_ += bytes;
}

}  // namespace msitd::libmsit
