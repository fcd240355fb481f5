// SPDX-License-Identifier: Apache-2.0
#include "daemon/log/log.h"

#include <gtest/gtest.h>

namespace msitd::log {
namespace {

using Clock = std::chrono::steady_clock;

TEST(LogTest, ModuleHasOneLogger) {
  EXPECT_EQ(Get("one"), Get("one"));
  EXPECT_NE(Get("one"), Get("two"));
  EXPECT_EQ(Get("one")->name(), "one");
}

TEST(LogTest, LimiterKeepsBackWhatIsTooMuchAndTellsHowMuchThatWas) {
  constexpr uint64_t kPerWindow = 64;
  const Clock::time_point begin = Clock::now();
  Limiter limiter;
  for (uint64_t i = 0; i < kPerWindow; ++i) {
    EXPECT_EQ(limiter.Admit(begin), 0u);
  }
  for (int second : {0, 1, 9}) {
    EXPECT_EQ(limiter.Admit(begin + std::chrono::seconds(second)),
              std::nullopt);
  }
  const Clock::time_point next = begin + std::chrono::seconds(10);
  EXPECT_EQ(limiter.Admit(next), 3u);
  EXPECT_EQ(limiter.Admit(next), 0u);
}

}  // namespace
}  // namespace msitd::log
