// SPDX-License-Identifier: Apache-2.0
#include "storage/index/table/continuation_table.h"

#include <gtest/gtest.h>
#include <rocksdb/write_batch.h>

#include <string>
#include <vector>

#include "storage/index/db/index_db.h"
#include "tests/support/temp_dir.h"

namespace msitd::storage {
namespace {

using std::string_literals::operator""s;

// The bytes specified in docs/format/index.md.
const std::string kJobsBytes = "\x01\x01\x01" + "a"s + "\x02\x07"s;
const std::string kRankBytes = "\x01\x02"s + "\x09\0\0\0\0\0\0\0"s;

TEST(ContinuationTableTest, LayoutsAreFrozen) {
  const std::vector<Continuation> jobs = {
      {.job = "a", .number = 2, .first_token = 7}};
  EXPECT_EQ(EncodeContinuations(jobs), kJobsBytes);
  std::vector<Continuation> decoded;
  ASSERT_TRUE(DecodeContinuations(kJobsBytes, decoded));
  EXPECT_EQ(decoded, jobs);
  const RankContinuation rank{.number = 2, .stream_id = 9};
  EXPECT_EQ(EncodeRankContinuation(rank), kRankBytes);
  RankContinuation own;
  ASSERT_TRUE(DecodeRankContinuation(kRankBytes, own));
  EXPECT_EQ(own, rank);
}

TEST(ContinuationTableTest, DamagedValuesAreRefused) {
  std::vector<Continuation> jobs;
  RankContinuation rank;
  for (size_t size = 0; size < kJobsBytes.size(); ++size) {
    EXPECT_FALSE(DecodeContinuations(kJobsBytes.substr(0, size), jobs));
  }
  for (size_t size = 0; size < kRankBytes.size(); ++size) {
    EXPECT_FALSE(DecodeRankContinuation(kRankBytes.substr(0, size), rank));
  }
  EXPECT_FALSE(DecodeContinuations("\x02" + kJobsBytes.substr(1), jobs));
  EXPECT_FALSE(DecodeRankContinuation("\x02" + kRankBytes.substr(1), rank));
}

TEST(ContinuationTableTest, EntriesGoWithTheirRun) {
  const testing::TempDir directory;
  auto db = IndexDb::Open({.directory = directory / "index"});
  ASSERT_TRUE(db.ok()) << db.status();
  ContinuationTable table(**db);
  const std::vector<Continuation> jobs = {
      {.job = "a", .number = 1, .first_token = 7}};
  rocksdb::WriteBatch batch;
  for (const uint64_t run : {3, 4}) {
    table.AppendTo(batch, RunId{run}, jobs);
    table.AppendTo(batch, RunId{run}, 5, {.number = 1, .stream_id = run});
  }
  ASSERT_TRUE((*db)->WriteDurable(batch).ok());
  batch.Clear();
  table.AppendRemovalTo(batch, RunId{3});
  ASSERT_TRUE((*db)->WriteDurable(batch).ok());
  EXPECT_TRUE(table.Get(RunId{3}, 5)->jobs.empty());
  EXPECT_FALSE(table.Get(RunId{3}, 5)->rank.has_value());
  EXPECT_EQ(table.Get(RunId{4}, 5)->jobs, jobs);
  EXPECT_EQ(table.Get(RunId{4}, 5)->rank->stream_id, 4u);
  EXPECT_FALSE(table.Get(RunId{4}, 6)->rank.has_value());
}

}  // namespace
}  // namespace msitd::storage
