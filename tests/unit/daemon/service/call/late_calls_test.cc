// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/call/late_calls.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace msitd::service {
namespace {

using std::chrono::milliseconds;

// A call that is found as long as the test wants. No call is ever late.
class LateCallsTest : public ::testing::Test {
 protected:
  // Waits for at most 5 s until `count` searches have begun.
  bool WaitForSearches(int count) const {
    for (int i = 0; i < 1000 && search_count_ < count; ++i) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return search_count_ >= count;
  }

  std::atomic<bool> has_calls_ = false;
  std::atomic<int> search_count_ = 0;
  LateCalls late_{"late-calls", GRPC_STATUS_DEADLINE_EXCEEDED, "late", [this] {
                    ++search_count_;
                    return LateCalls::FoundCalls{.late = {},
                                                 .has_others = has_calls_};
                  }};
};

TEST_F(LateCallsTest, SleepsUntilThereIsACall) {
  std::this_thread::sleep_for(milliseconds(250));
  EXPECT_EQ(search_count_, 0);
  late_.Watch();
  EXPECT_TRUE(WaitForSearches(1));
  std::this_thread::sleep_for(milliseconds(250));
  EXPECT_EQ(search_count_, 1) << "no call was left";
  late_.Watch();
  EXPECT_TRUE(WaitForSearches(2));
}

TEST_F(LateCallsTest, SearchesAgainWhileThereAreCalls) {
  has_calls_ = true;
  const auto start = std::chrono::steady_clock::now();
  late_.Watch();
  EXPECT_TRUE(WaitForSearches(4));
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(350));
}

TEST_F(LateCallsTest, MissesNoneOfManyCalls) {
  for (int i = 0; i < 5; ++i) {
    const int before = search_count_;
    for (int call = 0; call < 1000; ++call) late_.Watch();
    EXPECT_TRUE(WaitForSearches(before + 1));
  }
}

}  // namespace
}  // namespace msitd::service
