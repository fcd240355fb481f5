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

// Spends about 10 us, and adds the time that it took.
void Work(std::chrono::steady_clock::duration& took) {
  const auto start = std::chrono::steady_clock::now();
  auto now = start;
  while (now - start < std::chrono::microseconds(10)) {
    now = std::chrono::steady_clock::now();
  }
  took += now - start;
}

// Expects that `time` has counted `took`, give or take the error of samples. If
// the thread is interrupted in one of them, that time counts for many.
void ExpectAbout(const RecordingTime& time,
                 std::chrono::steady_clock::duration took) {
  const auto took_ns = static_cast<double>(took.count());
  const auto counted_ns = static_cast<double>(time.Read().recording_ns);
  EXPECT_GT(counted_ns, 0.3 * took_ns);
  EXPECT_LT(counted_ns, 5 * took_ns);
}

TEST(RecordingTimeTest, ShortCallsAreCountedBySamples) {
  RecordingTime one;
  RecordingTime other;
  std::chrono::steady_clock::duration of_one{};
  std::chrono::steady_clock::duration of_other{};
  // Two clients take turns.
  for (int i = 0; i < 10000; ++i) {
    const ShortCallScope scope(i % 2 == 0 ? one : other);
    Work(i % 2 == 0 ? of_one : of_other);
  }
  ExpectAbout(one, of_one);
  ExpectAbout(other, of_other);
}

TEST(RecordingTimeTest, SamplesDoNotDependOnThePeriodOfCalls) {
  for (const int period : {2, 15, 16, 17, 64}) {
    SCOPED_TRACE(period);
    RecordingTime time;
    std::chrono::steady_clock::duration took{};
    for (int i = 0; i < 10000; ++i) {
      ShortCallScope scope(time);
      if (i % period == 0) scope.Prolong();
      Work(took);
    }
    ExpectAbout(time, took);
  }
}

TEST(RecordingTimeTest, TheFirstCallOfAThreadIsNoSpecialOne) {
  RecordingTime time;
  std::chrono::steady_clock::duration took{};
  for (int i = 0; i < 1000; ++i) {
    std::thread([&] {
      const ShortCallScope scope(time);
      Work(took);
    }).join();
  }
  ExpectAbout(time, took);
}

TEST(RecordingTimeTest, ProlongedCallsAreCountedOneByOne) {
  RecordingTime time;
  uint64_t total_ns = 0;
  for (uint32_t i = 0; i < 2 * ShortCallScope::kCallsPerSample; ++i) {
    const auto start = std::chrono::steady_clock::now();
    ShortCallScope scope(time);
    scope.Prolong();
    Sleep(1);
    const auto took = std::chrono::steady_clock::now() - start;
    total_ns += static_cast<uint64_t>(took.count());
  }
  EXPECT_GE(time.Read().recording_ns, 32 * kMs);
  EXPECT_LE(time.Read().recording_ns, total_ns * 11 / 10);
}

TEST(RecordingTimeTest, AShortCallWithinAScopeCountsOnce) {
  RecordingTime time;
  {
    const RecordingScope outer(time);
    for (uint32_t i = 0; i < 2 * ShortCallScope::kCallsPerSample; ++i) {
      ShortCallScope scope(time);
      if (i % 2 == 0) scope.Prolong();
      Sleep(1);
    }
  }
  EXPECT_GE(time.Read().recording_ns, 32 * kMs);
  EXPECT_LE(time.Read().recording_ns, time.Read().open_ns);
}

}  // namespace
}  // namespace msitd::libmsit
