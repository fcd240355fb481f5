// SPDX-License-Identifier: Apache-2.0
#include "storage/read/read_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

#include "protos/status/mutex.h"

namespace msitd::storage {
namespace {

TEST(ReadPoolTest, EveryPieceIsDoneOnceWhoeverWaitsForIt) {
  ReadPool pool;
  for (int round = 0; round < 200; ++round) {
    std::vector<int> done(50);
    ReadPool::Job job(pool, done.size(), [&](size_t index) { ++done[index]; });
    std::vector<std::thread> threads;
    for (size_t t = 0; t < 2; ++t) {
      threads.emplace_back([&, t] {
        for (size_t i = 0; i < done.size(); ++i) {
          const size_t index = t == 0 ? i : done.size() - 1 - i;
          job.Await(index);
          EXPECT_EQ(done[index], 1);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

TEST(ReadPoolTest, PiecesAreUnderWayTogetherAndThoseNotBegunAreLeftOut) {
  // So many pieces that some are left when the job is abandoned, however late
  // that is.
  constexpr size_t kPieceCount = 1'000'000;
  ReadPool pool;
  Mutex mu;
  CondVar changed;
  size_t begun = 0;
  bool may_end = false;
  std::thread release;
  {
    ReadPool::Job job(pool, kPieceCount, [&](size_t) {
      const MutexLock lock(mu);
      ++begun;
      changed.NotifyAll();
      while (!may_end) changed.Wait(mu);
    });
    const MutexLock lock(mu);
    while (begun < ReadPool::kThreadsMax) changed.Wait(mu);
    release = std::thread([&] {
      const MutexLock lock(mu);
      may_end = true;
      changed.NotifyAll();
    });
  }
  release.join();
  const MutexLock lock(mu);
  EXPECT_GE(begun, ReadPool::kThreadsMax);
  EXPECT_LT(begun, kPieceCount);
}

TEST(ReadPoolTest, WhoWaitsDoesThePieceThatNobodyHasBegun) {
  ReadPool pool;
  std::atomic<bool> may_end{false};
  std::atomic<size_t> begun{0};
  ReadPool::Job other(pool, ReadPool::kThreadsMax, [&](size_t) {
    ++begun;
    while (!may_end) std::this_thread::yield();
  });
  while (begun < ReadPool::kThreadsMax) std::this_thread::yield();
  // All threads are busy.
  std::thread::id by;
  ReadPool::Job job(pool, 1, [&](size_t) { by = std::this_thread::get_id(); });
  job.Await(0);
  EXPECT_EQ(by, std::this_thread::get_id());
  may_end = true;
}

TEST(ReadPoolTest, AJobWithoutPiecesIsNone) {
  ReadPool pool;
  const ReadPool::Job job(pool, 0, [](size_t) { FAIL(); });
}

}  // namespace
}  // namespace msitd::storage
