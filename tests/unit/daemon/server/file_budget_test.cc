// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/file_budget.h"

#include <gtest/gtest.h>

namespace msitd::server {
namespace {

TEST(FileBudgetTest, StoreKeepsItsFilesWhateverTheLimit) {
  for (const uint64_t limit : {1024, 2048, 4096, 20'000, 65'536, 1'000'000}) {
    const FileBudget budget = FileBudget::Of(limit, 256);
    const uint64_t others = budget.tcp_connections_max +
                            budget.unix_connections_max +
                            3 * budget.sessions_max;
    EXPECT_LE(others + 640, limit) << limit;
    EXPECT_GE(budget.tcp_connections_max, 16) << limit;
    EXPECT_GE(budget.sessions_max, 16) << limit;
  }
}

TEST(FileBudgetTest, AllThatIsAskedForIsThereWhereFilesAreMany) {
  const FileBudget budget = FileBudget::Of(65'536, 256);
  EXPECT_EQ(budget.sessions_max, 256);
  EXPECT_EQ(budget.tcp_connections_max, 2048);
  EXPECT_EQ(budget.unix_connections_max, 512);
}

TEST(FileBudgetTest, HardlyAnyFilesAreNoReasonToRefuseAll) {
  const FileBudget budget = FileBudget::Of(64, 256);
  EXPECT_GE(budget.sessions_max, 1);
  EXPECT_GE(budget.unix_connections_max, 1);
}

}  // namespace
}  // namespace msitd::server
