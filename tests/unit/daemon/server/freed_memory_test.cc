// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/freed_memory.h"

#include <gtest/gtest.h>

namespace msitd::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Action = FreedMemory::Action;

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(FreedMemoryTest, BurstGoesAtOnceAndOnlyOnce) {
  FreedMemory memory;
  memory.Trimmed(30 * kMiB);
  EXPECT_EQ(memory.Check({milliseconds(50), milliseconds(50), 60 * kMiB}),
            Action::kNone);
  EXPECT_EQ(memory.Check({milliseconds(100), milliseconds(100), 90 * kMiB}),
            Action::kTrim);
  // The memory is in use, so there was nothing to release.
  memory.Trimmed(90 * kMiB);
  EXPECT_EQ(memory.Check({milliseconds(150), milliseconds(150), 90 * kMiB}),
            Action::kNone);
}

TEST(FreedMemoryTest, AllGoesOnceThereIsNothingToDo) {
  FreedMemory memory;
  memory.Trimmed(30 * kMiB);
  EXPECT_EQ(memory.Check({seconds(10), seconds(10), 30 * kMiB}), Action::kNone);
  EXPECT_EQ(memory.Check({seconds(11), seconds(10), 30 * kMiB}), Action::kNone);
  EXPECT_EQ(memory.Check({seconds(12), seconds(10), 30 * kMiB}),
            Action::kGiveBack);
  // It is not repeated without work in between.
  EXPECT_EQ(memory.Check({seconds(15), seconds(10), 30 * kMiB}), Action::kNone);
}

TEST(FreedMemoryTest, WorkKeepsItsMemory) {
  FreedMemory memory;
  memory.Trimmed(30 * kMiB);
  for (int i = 1; i < 100; ++i) {
    EXPECT_EQ(memory.Check({seconds(i), milliseconds(500 * i), 60 * kMiB}),
              Action::kNone);
  }
}

TEST(FreedMemoryTest, LookSeesThisProcess) {
  const FreedMemory::Sample sample = FreedMemory::Look();
  EXPECT_GT(sample.now.count(), 0);
  EXPECT_GT(sample.cpu.count(), 0);
  EXPECT_GT(sample.resident_bytes, 64 << 10);
}

}  // namespace
}  // namespace msitd::server
