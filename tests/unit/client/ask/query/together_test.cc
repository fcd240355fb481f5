// SPDX-License-Identifier: Apache-2.0
#include "client/ask/query/together.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "client/ask/query/connection.h"

namespace msitd::ask {
namespace {

// No function here calls the daemon.
class TogetherTest : public ::testing::Test {
 protected:
  Interrupts interrupts_;
  Connection connection_{ConnectionOptions(), interrupts_};
};

TEST_F(TogetherTest, RunsBothAtTheSameTime) {
  std::latch both(2);
  Together(
      connection_, [&] { both.arrive_and_wait(); },
      [&] { both.arrive_and_wait(); });
}

TEST_F(TogetherTest, CallsEachOnceAndSeveralAtTheSameTime) {
  constexpr size_t kCount = 100;
  std::vector<int> counts(kCount);
  std::latch first(kAtOnceMax);
  std::atomic<int> inside{0};
  size_t done_count = 0;
  ForEachAtOnce(
      connection_, kCount,
      [&](size_t i) {
        if (i < kAtOnceMax) first.arrive_and_wait();
        ++counts[i];
        return true;
      },
      [&] {
        EXPECT_EQ(inside.fetch_add(1), 0);
        ++done_count;
        inside.fetch_sub(1);
      });
  EXPECT_EQ(counts, std::vector<int>(kCount, 1));
  EXPECT_EQ(done_count, kCount);
}

TEST_F(TogetherTest, EndsEarly) {
  std::atomic<size_t> called_count{0};
  ForEachAtOnce(
      connection_, 1'000'000,
      [&](size_t) {
        ++called_count;
        return false;
      },
      [] {});
  EXPECT_GE(called_count.load(), 1u);
  EXPECT_LE(called_count.load(), kAtOnceMax);
}

TEST_F(TogetherTest, NothingIsNoCall) {
  ForEachAtOnce(
      connection_, 0,
      [](size_t) {
        ADD_FAILURE();
        return true;
      },
      [] { ADD_FAILURE(); });
}

}  // namespace
}  // namespace msitd::ask
