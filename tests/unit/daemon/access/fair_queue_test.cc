// SPDX-License-Identifier: Apache-2.0
#include "daemon/access/fair_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace msitd::access {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;

using Queue = FairQueue<int>;

// Takes all jobs, one at a time.
std::vector<int> TakeAll(Queue& queue,
                         const std::map<int, std::string>& callers) {
  std::vector<int> out;
  while (const auto job = queue.Pop()) {
    out.push_back(*job);
    queue.Finish(callers.at(*job));
  }
  return out;
}

TEST(FairQueueTest, JobsOfOneCallerKeepTheirOrder) {
  Queue queue;
  for (int job : {1, 2, 3}) queue.Push("a", job);
  EXPECT_EQ(queue.size(), 3);
  EXPECT_THAT(TakeAll(queue, {{1, "a"}, {2, "a"}, {3, "a"}}),
              ElementsAre(1, 2, 3));
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(queue.Pop(), std::nullopt);
}

TEST(FairQueueTest, CallersTakeTurns) {
  Queue queue;
  std::map<int, std::string> callers;
  for (int job = 0; job < 30; ++job) {
    queue.Push("hog", job);
    callers[job] = "hog";
  }
  ASSERT_THAT(queue.Pop(), Optional(0));
  queue.Finish("hog");
  queue.Push("b", 100);
  queue.Push("c", 101);
  queue.Push("b", 102);
  callers[100] = callers[102] = "b";
  callers[101] = "c";
  const std::vector<int> order = TakeAll(queue, callers);
  EXPECT_THAT(std::vector<int>(order.begin(), order.begin() + 6),
              ElementsAre(100, 101, 1, 102, 2, 3));
}

TEST(FairQueueTest, CallersWithFewerJobsUnderWayComeFirst) {
  Queue queue;
  queue.Push("a", 1);
  queue.Push("a", 2);
  queue.Push("a", 3);
  ASSERT_THAT(queue.Pop(), Optional(1));
  queue.Push("b", 10);
  queue.Push("b", 11);
  ASSERT_THAT(queue.Pop(), Optional(10));
  ASSERT_THAT(queue.Pop(), Optional(2));
  queue.Finish("b");
  EXPECT_THAT(queue.Pop(), Optional(11));
}

TEST(FairQueueTest, CountBeforeIsTheOrderOfPop) {
  Queue queue;
  for (int job : {1, 2, 3}) queue.Push("a", job);
  queue.Push("b", 10);
  EXPECT_THAT(queue.CountBefore(1), Optional(0u));
  EXPECT_THAT(queue.CountBefore(10), Optional(1u));
  EXPECT_THAT(queue.CountBefore(2), Optional(2u));
  EXPECT_THAT(queue.CountBefore(3), Optional(3u));
  EXPECT_EQ(queue.CountBefore(4), std::nullopt);
}

TEST(FairQueueTest, JobsCanBeRemoved) {
  Queue queue;
  queue.Push("a", 1);
  queue.Push("b", 2);
  EXPECT_TRUE(queue.Remove(1));
  EXPECT_FALSE(queue.Remove(1));
  EXPECT_THAT(queue.Clear(), ElementsAre(2));
  EXPECT_TRUE(queue.empty());
  queue.Finish("nobody");
}

}  // namespace
}  // namespace msitd::access
