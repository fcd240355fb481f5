// SPDX-License-Identifier: Apache-2.0
#include "daemon/archive/give_way.h"

#include <gtest/gtest.h>

#include <thread>

namespace msitd::archive {
namespace {

using std::chrono::milliseconds;
using Clock = GiveWay::Clock;

absl::Status GoOn() { return absl::OkStatus(); }

Clock::duration RestOf(GiveWay& work) {
  const auto begin = Clock::now();
  EXPECT_TRUE(work.Rest(GoOn).ok());
  return Clock::now() - begin;
}

TEST(GiveWay, RestsAsLongAsOthersAreBusyAndNoLongerThanItMay) {
  GiveWay work([] { return true; }, {.rest_factor = 10});
  std::this_thread::sleep_for(milliseconds(20));
  EXPECT_GE(RestOf(work), milliseconds(200));
  GiveWay bounded([] { return true; },
                  {.rest_factor = 1'000'000, .rest_max = milliseconds(50)});
  std::this_thread::sleep_for(milliseconds(5));
  const auto rest = RestOf(bounded);
  EXPECT_GE(rest, milliseconds(50));
  EXPECT_LT(rest, milliseconds(5000));
}

TEST(GiveWay, GoesOnOnceOthersAreIdle) {
  int looks = 0;
  GiveWay work([&] { return ++looks % 2 == 1 && looks < 20; },
               {.rest_factor = 1'000'000, .rest_max = milliseconds(60'000)});
  std::this_thread::sleep_for(milliseconds(1));
  EXPECT_LT(RestOf(work), milliseconds(30'000));
  // A short idle period does not count as idle.
  EXPECT_GE(looks, 20);
}

TEST(GiveWay, DoesNotRestBesideWhoIsIdle) {
  int looks = 0;
  GiveWay work([&] { return ++looks < 0; },
               {.rest_factor = 1'000'000, .rest_max = milliseconds(60'000)});
  for (int step = 1; step <= 100; ++step) {
    std::this_thread::sleep_for(std::chrono::microseconds(10));
    EXPECT_LT(RestOf(work), milliseconds(5000));
    EXPECT_EQ(looks, step);
  }
}

TEST(GiveWay, EndsWhenItIsTo) {
  GiveWay work([] { return true; },
               {.rest_factor = 1'000'000, .rest_max = milliseconds(60'000)});
  std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(
      absl::IsCancelled(work.Rest([] { return absl::CancelledError("x"); })));
}

}  // namespace
}  // namespace msitd::archive
