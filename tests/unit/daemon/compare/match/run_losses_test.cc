// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/match/run_losses.h"

#include <gtest/gtest.h>

namespace msitd::compare {
namespace {

TEST(IncompleteCounterTest, TensorsOfRanksThatWereLookedAtCountOnce) {
  IncompleteCounter counter;
  counter.Add(0, {2, {0, 1, 2, 3}});
  // The tensors that only rank 1 has are included.
  counter.Add(0, {1, {1}});
  EXPECT_EQ(counter.count(), 2u);
  counter.Add(0, {3, {4}});
  EXPECT_EQ(counter.count(), 5u);
  counter.Add(1, {1, {1}});
  EXPECT_EQ(counter.count(), 6u);
}

TEST(IncompleteCounterTest, NoneOfNoRanks) {
  IncompleteCounter counter;
  counter.Add(0, {});
  EXPECT_EQ(counter.count(), 0u);
}

}  // namespace
}  // namespace msitd::compare
