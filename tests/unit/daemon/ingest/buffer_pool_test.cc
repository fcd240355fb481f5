// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/buffer_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

namespace msitd::ingest {
namespace {

using ::testing::ElementsAre;

constexpr uint64_t kMax = BufferPool::kBufferBytesMax;

TEST(BufferPoolTest, LendsAlignedMemoryOfTheLengthAskedFor) {
  BufferPool pool(kMax);
  bool taken = false;
  pool.Acquire(5000, [&](BufferPool::Buffer buffer) {
    taken = true;
    EXPECT_EQ(buffer.span().size(), 5000u);
    EXPECT_EQ(
        reinterpret_cast<uintptr_t>(buffer.span().data()) % kChunkAlignment,
        0u);
    std::memset(buffer.span().data(), 1, buffer.span().size());
  });
  EXPECT_TRUE(taken);
  EXPECT_EQ(pool.lent_bytes(), 0u);
}

TEST(BufferPoolTest, LendsTheSameMemoryAgain) {
  BufferPool pool(kMax);
  const std::byte* first = nullptr;
  const std::byte* second = nullptr;
  pool.Acquire(kMax, [&](BufferPool::Buffer b) { first = b.span().data(); });
  pool.Acquire(kMax, [&](BufferPool::Buffer b) { second = b.span().data(); });
  EXPECT_EQ(first, second);
}

TEST(BufferPoolTest, WaitersAreServedInOrderOnceThereIsRoom) {
  BufferPool pool(2 * kMax);
  std::vector<BufferPool::Buffer> lent;
  const auto keep = [&](BufferPool::Buffer b) { lent.push_back(std::move(b)); };
  pool.Acquire(kMax, keep);
  pool.Acquire(kMax, keep);
  std::vector<int> order;
  pool.Acquire(kMax, [&](BufferPool::Buffer) { order.push_back(1); });
  // This request would fit earlier, but must not overtake.
  pool.Acquire(100, [&](BufferPool::Buffer) { order.push_back(2); });
  EXPECT_THAT(order, ElementsAre());
  lent.pop_back();
  EXPECT_THAT(order, ElementsAre(1, 2));
}

TEST(BufferPoolTest, MemoryOfOtherSizesMakesRoom) {
  BufferPool pool(kMax);
  {
    std::vector<BufferPool::Buffer> small;
    for (int i = 0; i < 64; ++i) {
      pool.Acquire(
          16384, [&](BufferPool::Buffer b) { small.push_back(std::move(b)); });
    }
    EXPECT_EQ(small.size(), 64u);
  }
  bool taken = false;
  pool.Acquire(kMax, [&](BufferPool::Buffer) { taken = true; });
  EXPECT_TRUE(taken);
}

TEST(BufferPoolTest, NeverLendsMoreThanItHas) {
  BufferPool pool(2 * kMax);
  std::atomic<int> served = 0;
  std::atomic<int64_t> lent = 0;
  std::atomic<bool> exceeded = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        pool.Acquire(kMax, [&](BufferPool::Buffer b) {
          const auto size = static_cast<int64_t>(b.span().size());
          if ((lent += size) > static_cast<int64_t>(2 * kMax)) exceeded = true;
          b.span()[0] = std::byte{1};
          lent -= size;
          ++served;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(served, 800);
  EXPECT_FALSE(exceeded);
  EXPECT_EQ(pool.lent_bytes(), 0u);
}

}  // namespace
}  // namespace msitd::ingest
