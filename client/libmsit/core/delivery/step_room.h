// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

namespace msitd::libmsit {

// Determines how many slots a client needs if its host has not specified it:
// enough for two of its largest steps, one that is recorded while the daemon
// accepts the previous one. The size of a step is known only at its end, so the
// first step may use all slots. A host that does not count steps stays in its
// first one.
//
// A step consists of the records with the highest token so far, and of all
// records made while that token is the highest. Thread-compatible.
class StepRoom {
 public:
  // Bounds of slot_count() for steps of any size. `most` must be at least
  // `least`.
  StepRoom(size_t least, size_t most)
      : least_(least), most_(most), slot_count_(most) {}

  // Counts a chunk with `bytes` bytes of payload, whose first record has
  // `token`.
  void Count(int64_t token, uint64_t bytes);

  size_t slot_count() const { return slot_count_; }

 private:
  size_t least_;
  size_t most_;
  size_t slot_count_;
  std::optional<int64_t> token_;
  uint64_t step_bytes_ = 0;
  // The largest size of a finished step.
  uint64_t largest_bytes_ = 0;
};

}  // namespace msitd::libmsit
