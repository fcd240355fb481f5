// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <thread>

#include "daemon/compare/work_observer.h"

namespace msitd::compare {

// Expects that it is called only by the thread that created it.
class OneThreadObserver final : public WorkObserver {
 public:
  absl::Status Check() override {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    return is_cancelled ? absl::CancelledError("cancelled") : absl::OkStatus();
  }
  void OnRead(uint64_t bytes) override {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    read_bytes += bytes;
  }

  std::atomic<bool> is_cancelled{false};
  uint64_t read_bytes = 0;

 private:
  const std::thread::id thread_ = std::this_thread::get_id();
};

}  // namespace msitd::compare
