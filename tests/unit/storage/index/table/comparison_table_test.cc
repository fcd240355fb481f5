// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/comparison_table.h"

#include <gtest/gtest.h>
#include <rocksdb/write_batch.h>

#include <memory>
#include <string>
#include <vector>

#include "protos/base/byte_codec.h"
#include "tests/support/temp_dir.h"

namespace msitd::storage {
namespace {

TEST(ComparisonTableTest, RowsOfAnEarlierVersionAreSaidToBeSuch) {
  const testing::TempDir directory;
  auto db = IndexDb::Open({.directory = directory / "index"});
  ASSERT_TRUE(db.ok()) << db.status();
  ComparisonTable table(**db);
  ASSERT_EQ(*table.Create("document", {}), 1u);
  ASSERT_TRUE(table.GetRows(1, 0, 10).ok());
  rocksdb::WriteBatch batch;
  (*db)->Put(batch, Table::kComparison, "r" + BigEndianKey(1) + BigEndianKey(0),
             "a row");
  ASSERT_TRUE((*db)->WriteDurable(batch).ok());
  EXPECT_EQ(*table.Get(1), "document");
  EXPECT_EQ(table.GetRows(1, 0, 10).status().code(),
            absl::StatusCode::kFailedPrecondition);
  const std::vector<std::string> rows = {"another"};
  EXPECT_EQ(table.PutRows(1, 1, rows).code(),
            absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(table.Delete(1).ok());
  EXPECT_FALSE(
      *(*db)->Get(Table::kComparison, "r" + BigEndianKey(1) + BigEndianKey(0)));
}

}  // namespace
}  // namespace msitd::storage
