// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace msitd::client {

// Says how many slots a client needs whose host has not said it: enough for two
// of its largest steps, one that is recorded while the daemon takes the one
// before. How large a step is shows only at its end, so the first one may have
// all there are. A host that counts no steps stays in its first.
//
// A step is what has the highest token so far, or comes while it is the
// highest. Thread-compatible.
class StepRoom {
 public:
  // The bounds, whatever the steps are like. `most` is at least `least`.
  StepRoom(size_t least, size_t most)
      : least_(least), most_(most), slot_count_(most) {}

  // Counts a chunk of `bytes` bytes of payload, whose records begin with
  // `token`.
  void Count(int64_t token, uint64_t bytes);

  size_t slot_count() const { return slot_count_; }

 private:
  size_t least_;
  size_t most_;
  size_t slot_count_;
  std::optional<int64_t> token_;
  uint64_t step_bytes_ = 0;
  // Of the steps that are over.
  uint64_t largest_bytes_ = 0;
};

}  // namespace msitd::client
