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
  ASSERT_EQ(*table.Create("document", {}, 0), 1u);
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

TEST(ComparisonTableTest, ACopyKeepsItsNumberIfNoneHasHadIt) {
  const testing::TempDir directory;
  auto db = IndexDb::Open({.directory = directory / "index"});
  ASSERT_TRUE(db.ok()) << db.status();
  ComparisonTable table(**db);
  const RunId runs[] = {RunId{5}, RunId{6}};
  const RunId other[] = {RunId{6}};
  EXPECT_EQ(*table.Create("a", runs, 7), 7u);
  EXPECT_EQ(*table.Create("b", other, 0), 8u);
  // The number is already in use.
  EXPECT_EQ(*table.Create("c", other, 7), 9u);
  EXPECT_EQ(*table.Create("d", runs, 1), 10u);
  // Requests for very large numbers do not use up the range.
  EXPECT_EQ(*table.Create("e", runs, uint64_t{1} << 60), 11u);
  EXPECT_EQ(*table.Create("f", runs, ~uint64_t{0}), 12u);
  using Ids = std::vector<uint64_t>;
  EXPECT_EQ(*table.ListOf(RunId{5}, 0, 100), (Ids{7, 10, 11, 12}));
  EXPECT_EQ(*table.ListOf(RunId{5}, 7, 2), (Ids{10, 11}));
  EXPECT_EQ(*table.ListOf(RunId{6}, 8, 1), (Ids{9}));
  EXPECT_TRUE(table.ListOf(RunId{4}, 0, 100)->empty());
  EXPECT_TRUE(table.ListOf(RunId{5}, ~uint64_t{0}, 100)->empty());
}

}  // namespace
}  // namespace msitd::storage
