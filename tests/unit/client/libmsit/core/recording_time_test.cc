// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/recording_time.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace msitd::libmsit {
namespace {

using std::chrono::milliseconds;

constexpr uint64_t kMs = 1'000'000;

void Sleep(int ms) { std::this_thread::sleep_for(milliseconds(ms)); }

TEST(RecordingTimeTest, OnlyTimeWithinScopesCounts) {
  RecordingTime time;
  EXPECT_EQ(time.Read().recording_ns, 0u);
  Sleep(30);
  {
    const RecordingScope scope(time);
    Sleep(20);
  }
  const RecordingTime::Times times = time.Read();
  EXPECT_GE(times.recording_ns, 19 * kMs);
  EXPECT_GE(times.open_ns, 50 * kMs);
  EXPECT_LE(times.recording_ns, times.open_ns - 29 * kMs);
}

TEST(RecordingTimeTest, NestedScopesCountOnceForTheOutermost) {
  RecordingTime outer;
  RecordingTime inner;
  {
    const RecordingScope scope(outer);
    const RecordingScope same(outer);
    const RecordingScope other(inner);
    Sleep(20);
  }
  EXPECT_GE(outer.Read().recording_ns, 19 * kMs);
  EXPECT_LE(outer.Read().recording_ns, outer.Read().open_ns);
  EXPECT_EQ(inner.Read().recording_ns, 0u);
}

TEST(RecordingTimeTest, ThreadsAddUp) {
  RecordingTime time;
  const auto record = [&time] {
    const RecordingScope scope(time);
    Sleep(20);
  };
  std::thread one(record);
  std::thread two(record);
  one.join();
  two.join();
  EXPECT_GE(time.Read().recording_ns, 38 * kMs);
}

TEST(RecordingTimeTest, LeavingWithoutHavingEnteredDoesNothing) {
  RecordingTime time;
  time.Leave();
  EXPECT_EQ(time.ticks(), 0u);
  const RecordingScope scope(time);
  time.Leave();
  EXPECT_NE(time.ticks(), 0u);
}

}  // namespace
}  // namespace msitd::libmsit
