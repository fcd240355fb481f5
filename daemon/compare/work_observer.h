// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>

#include "absl/status/status.h"

namespace msitd::compare {

// The longest time between two calls of an observer while its thread waits for
// another thread.
inline constexpr std::chrono::milliseconds kQuestionInterval{20};

// Connects long-running reads and pairing to the comparison that they work for:
// it can stop them, and they report what they have read. All functions except
// is_over() are called on one thread.
class WorkObserver {
 public:
  virtual ~WorkObserver() = default;

  // Called between pairs and between the parts of a pair, that is, at least
  // every few milliseconds of work. An error, usually CANCELLED, ends the
  // comparison.
  virtual absl::Status Check() = 0;

  // True if Check will fail because the comparison was stopped. Thread-safe:
  // called on any thread while it waits for another machine.
  virtual bool is_over() const { return false; }

  // Called with the number of tensor bytes that were read since the last call.
  virtual void OnRead(uint64_t bytes) = 0;
};

}  // namespace msitd::compare
