// SPDX-License-Identifier: Apache-2.0
#include "protos/os/at_once.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace msitd {
namespace {

TEST(AtOnceTest, EachNumberComesOnce) {
  for (const size_t count : {0, 1, 2, 7, 1000}) {
    std::vector<std::atomic<int>> calls(count);
    ForEachAtOnce(count, 4, [&](size_t i) { ++calls[i]; });
    for (const auto& each : calls) EXPECT_EQ(each, 1);
  }
}

TEST(AtOnceTest, CallsThatWaitForEachOtherAreAtOnce) {
  constexpr size_t kCount = 8;
  std::atomic<size_t> begun{0};
  ForEachAtOnce(kCount, kCount, [&](size_t) {
    ++begun;
    while (begun < kCount) std::this_thread::yield();
  });
  EXPECT_EQ(begun, kCount);
}

TEST(AtOnceTest, ThreadsAreNoMoreThanAllowed) {
  std::mutex mu;
  std::set<std::thread::id> seen;
  ForEachAtOnce(200, 3, [&](size_t) {
    const std::lock_guard lock(mu);
    seen.insert(std::this_thread::get_id());
  });
  EXPECT_LE(seen.size(), 3u);
  seen.clear();
  ForEachAtOnce(5, 1, [&](size_t) { seen.insert(std::this_thread::get_id()); });
  EXPECT_EQ(seen, std::set{std::this_thread::get_id()});
}

}  // namespace
}  // namespace msitd
