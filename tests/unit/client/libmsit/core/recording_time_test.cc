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

void Work() {
  const auto end =
      std::chrono::steady_clock::now() + std::chrono::microseconds(10);
  while (std::chrono::steady_clock::now() < end) {
  }
}

// Expects that `time`, to which `measure` adds `count` calls of Work, counts
// about so many, give or take the error of samples. If the system interrupts
// the thread in a sample, that time counts for many calls, so that several
// attempts are made.
template <typename Measure>
void ExpectAbout(uint64_t count, Measure measure) {
  double ratio = 0;
  for (int attempt = 0; attempt < 20; ++attempt) {
    RecordingTime time;
    measure(time);
    ratio = static_cast<double>(time.Read().recording_ns) /
            static_cast<double>(count * 10'000);
    if (ratio > 0.3 && ratio < 3) return;
  }
  ADD_FAILURE() << ratio << " times as long as it was";
}

TEST(RecordingTimeTest, ClientsThatTakeTurnsAreCountedAlike) {
  ExpectAbout(1000, [](RecordingTime& time) {
    RecordingTime other;
    for (int i = 0; i < 2000; ++i) {
      const ShortCallScope scope(i % 2 == 0 ? time : other);
      Work();
    }
  });
}

TEST(RecordingTimeTest, SamplesDoNotDependOnThePeriodOfCalls) {
  for (const int period : {2, 15, 16, 17, 64}) {
    SCOPED_TRACE(period);
    ExpectAbout(2000, [period](RecordingTime& time) {
      for (int i = 0; i < 2000; ++i) {
        ShortCallScope scope(time);
        if (i % period == 0) scope.Prolong();
        Work();
      }
    });
  }
}

TEST(RecordingTimeTest, TheFirstCallOfAThreadIsNoSpecialOne) {
  ExpectAbout(400, [](RecordingTime& time) {
    for (int i = 0; i < 400; ++i) {
      std::thread([&time] {
        const ShortCallScope scope(time);
        Work();
      }).join();
    }
  });
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
