// SPDX-License-Identifier: Apache-2.0
#include "protos/status/mutex.h"

#include <chrono>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "gtest/gtest.h"

namespace msitd {
namespace {

struct Counter {
  Mutex mu;
  CondVar changed;
  int value ABSL_GUARDED_BY(mu) = 0;
};

TEST(MutexTest, ExcludesOtherThreads) {
  Counter counter;
  std::vector<std::jthread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&counter] {
      for (int i = 0; i < 1000; ++i) {
        const MutexLock lock(counter.mu);
        ++counter.value;
      }
    });
  }
  threads.clear();
  const MutexLock lock(counter.mu);
  EXPECT_EQ(counter.value, 4000);
}

TEST(CondVarTest, WaitReturnsWithTheLockHeldOnceNotified) {
  Counter counter;
  const std::jthread setter([&counter] {
    const MutexLock lock(counter.mu);
    counter.value = 1;
    counter.changed.NotifyAll();
  });
  const MutexLock lock(counter.mu);
  while (counter.value == 0) counter.changed.Wait(counter.mu);
  EXPECT_EQ(counter.value, 1);
}

TEST(CondVarTest, WaitUntilReturnsFalseAfterTheDeadline) {
  Counter counter;
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
  const MutexLock lock(counter.mu);
  while (counter.changed.WaitUntil(counter.mu, deadline)) {
  }
  EXPECT_GE(std::chrono::steady_clock::now(), deadline);
}

}  // namespace
}  // namespace msitd
