// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"

namespace msitd::compare {

// The longest time that an observer is not asked while its thread waits for
// another one.
inline constexpr std::chrono::milliseconds kQuestionInterval{20};

// What reading and pairing need of the comparison that they work for. All calls
// but those of is_over come from one thread.
class WorkObserver {
 public:
  virtual ~WorkObserver() = default;

  // Asked between pairs and between the parts of a pair, so at least every few
  // milliseconds of work; an error ends the comparison: CANCELLED.
  virtual absl::Status Check() = 0;

  // True once Check will fail because nobody wants the comparison any more.
  // Thread-safe: asked while another machine is waited for.
  virtual bool is_over() const { return false; }

  // Bytes of tensors that were read since the last call.
  virtual void OnRead(uint64_t bytes) = 0;
};

}  // namespace msitd::compare
