// SPDX-License-Identifier: Apache-2.0
#include <rocksdb/iterator.h>
#include <rocksdb/options.h>

#include <random>
#include <string>
#include <vector>

#include "storage/index/db/index_db.h"
#include "tests/support/fault_env.h"
#include "tests/unit/storage/store_fixture.h"

namespace msitd::storage {
namespace {

using ::msitd::testing::FaultEnv;
using ::testing::ElementsAre;

// Tests of the entries that Tidy removes from the index after runs are deleted.
class StoreTidyTest : public StoreTest {
 protected:
  void Reopen() { ASSERT_TRUE(TryOpen(env_).ok()); }

  // Records ops that only this run has, except for one common op.
  void Fill(const std::string& run, int tokens, int ops) {
    ASSERT_TRUE(store_->runs().CreateRun({run, 0, {}}).ok());
    for (int token = 0; token < tokens; ++token) {
      std::vector<TestTensor> records = {MakeTensor(run, token, "common", 4)};
      for (int op = 0; op < ops; ++op) {
        records.push_back(
            MakeTensor(run, token, run + ".layer." + std::to_string(op), 4));
      }
      ASSERT_TRUE(Append(records).ok());
    }
  }

  // Tidies until nothing is left. Returns the number of steps.
  int TidyAll() {
    for (int steps = 1; steps < 10'000; ++steps) {
      EXPECT_TRUE(store_->upkeep().Retain(RetentionPolicy()).ok());
      const auto is_done = store_->upkeep().Tidy();
      EXPECT_TRUE(is_done.ok()) << is_done.status();
      if (is_done.value_or(true)) return steps;
    }
    ADD_FAILURE() << "tidying does not end";
    return 0;
  }

  // Closes the store and counts the contents of its index.
  struct Contents {
    int names = 0;
    int entries = 0;
    int comparisons = 0;
    int gone = 0;
  };
  Contents Close() {
    EXPECT_TRUE(store_->Close().ok());
    Drop();
    Contents out;
    auto db = IndexDb::Open({.directory = options_.directory + "/index"});
    EXPECT_TRUE(db.ok()) << db.status();
    const auto count = [&db](Table table, char tag) {
      int n = 0;
      const auto it = (*db)->Iterate(table, rocksdb::ReadOptions());
      for (it->SeekToFirst(); it->Valid(); it->Next()) {
        n += tag == 0 || it->key()[0] == tag ? 1 : 0;
      }
      return n;
    };
    out.names = count(Table::kName, 'n');
    EXPECT_EQ(count(Table::kName, 'i'), out.names);
    out.entries = count(Table::kTensor, 0);
    out.comparisons = count(Table::kComparison, 0);
    out.gone = count(Table::kRun, 'g');
    return out;
  }

  FaultEnv env_{Env::Posix()};
};

TEST_F(StoreTidyTest, NamesOfDeletedRunsGoAndOthersStay) {
  Reopen();
  Fill("a", 3, 40);
  Fill("b", 3, 20);
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  TidyAll();
  EXPECT_EQ(ScanKeys("b").size(), 63u);
  ExpectStored(MakeTensor("b", 1, "b.layer.7", 4));
  // 20 ops of b, `common`, a device and an index.
  const Contents left = Close();
  EXPECT_EQ(left.names, 23);
  EXPECT_EQ(left.entries, 63);
  EXPECT_EQ(left.gone, 0);
}

TEST_F(StoreTidyTest, ScanOfADeletedRunEndsWhenItsNamesWereSwept) {
  Reopen();
  Fill("a", 1, 50);
  Drop();
  // After a restart, none of the names are in memory.
  Reopen();
  auto scan = read_->Scan("a", {}, "");
  ASSERT_TRUE(scan.ok());
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  TidyAll();
  TensorInfo info;
  absl::StatusOr<bool> found = true;
  while (found.value_or(false)) found = (*scan)->Next(info);
  EXPECT_EQ(found.status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Reason(found.status()), "RUN_NOT_FOUND") << found.status();
}

TEST_F(StoreTidyTest, NameThatComesBackGetsANumberOfItsOwn) {
  Reopen();
  Fill("a", 1, 5);
  Fill("b", 1, 5);
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  TidyAll();
  Fill("a", 2, 5);
  for (int op = 0; op < 5; ++op) {
    ExpectStored(MakeTensor("a", 1, "a.layer." + std::to_string(op), 4));
    ExpectStored(MakeTensor("b", 0, "b.layer." + std::to_string(op), 4));
  }
  // This also applies to entries that are read back from the log.
  Drop();
  Reopen();
  for (int op = 0; op < 5; ++op) {
    ExpectStored(MakeTensor("a", 1, "a.layer." + std::to_string(op), 4));
    ExpectStored(MakeTensor("b", 0, "b.layer." + std::to_string(op), 4));
  }
  EXPECT_EQ(ScanKeys("a").size(), 12u);
}

TEST_F(StoreTidyTest, NamesThatComeWhileOthersAreSweptStay) {
  Reopen();
  Fill("a", 1, 50);
  Fill("b", 1, 1);
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  // Between any two steps, a name of the deleted run is used again.
  int op = 0;
  while (!*store_->upkeep().Tidy()) {
    ASSERT_LT(op, 50);
    ASSERT_TRUE(
        Append({MakeTensor("b", 1, "a.layer." + std::to_string(op++), 4)})
            .ok());
  }
  ASSERT_GE(op, 1);
  Drop();
  Reopen();
  for (int i = 0; i < op; ++i) {
    ExpectStored(MakeTensor("b", 1, "a.layer." + std::to_string(i), 4));
  }
}

TEST_F(StoreTidyTest, ACrashAfterAnyStepLosesNothingAndLeavesNothing) {
  for (int crash_after = 0; crash_after < 5; ++crash_after) {
    SCOPED_TRACE(crash_after);
    const std::string run = "run-" + std::to_string(crash_after);
    Reopen();
    Fill(run, 1, 30);
    const std::string kept = "kept-" + std::to_string(crash_after);
    Fill(kept, 1, 3);
    const std::vector<std::string> runs = {run, run};
    const auto id = store_->comparisons().CreateComparison("document", runs);
    ASSERT_TRUE(id.ok()) << id.status();
    const std::vector<std::string> rows = {"row"};
    ASSERT_TRUE(store_->comparisons().PutComparisonRows(*id, 0, rows).ok());
    ASSERT_TRUE(store_->runs().DeleteRun(run).ok());
    for (int i = 0; i < crash_after; ++i)
      ASSERT_TRUE(store_->upkeep().Tidy().ok());
    Drop();
    Reopen();
    env_.AdvanceClock(int64_t{3600} * 1'000'000'000);
    TidyAll();
    EXPECT_EQ(Reason(store_->comparisons().GetComparison(*id).status()),
              "COMPARISON_NOT_FOUND");
    EXPECT_EQ(ScanKeys(kept).size(), 4u);
    const Contents left = Close();
    // Three names of each kept run, and three names that all runs use.
    EXPECT_EQ(left.names, 3 * (crash_after + 1) + 3);
    EXPECT_EQ(left.entries, 4 * (crash_after + 1));
    EXPECT_EQ(left.comparisons, 0);
    EXPECT_EQ(left.gone, 0);
  }
}

TEST_F(StoreTidyTest, ComparisonsGoWithTheLastOfTheirRuns) {
  Reopen();
  for (const char* run : {"a", "b", "c"}) Fill(run, 1, 1);
  const std::vector<std::string> rows(200, "a row");
  const std::vector<std::vector<std::string>> pairs = {
      {"a", "b"}, {"b", "c"}, {"c", "a"}, {}, {"a", "c"}, {"a", "a"}};
  for (const auto& runs : pairs) {
    const auto id = store_->comparisons().CreateComparison("document", runs);
    ASSERT_TRUE(id.ok()) << id.status();
    ASSERT_TRUE(store_->comparisons().PutComparisonRows(*id, 0, rows).ok());
  }
  ASSERT_TRUE(store_->comparisons().DeleteComparison(5).ok());
  EXPECT_EQ(Reason(store_->comparisons()
                       .CreateComparison("", std::vector<std::string>{"d"})
                       .status()),
            "RUN_NOT_FOUND");
  const auto ids = [this] {
    std::vector<uint64_t> out;
    const auto listed = *store_->comparisons().ListComparisons(0, 10);
    for (const auto& [id, document] : listed) out.push_back(id);
    return out;
  };
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  TidyAll();
  EXPECT_THAT(ids(), ElementsAre(1, 2, 3, 4));
  ASSERT_TRUE(store_->runs().DeleteRun("c").ok());
  TidyAll();
  EXPECT_THAT(ids(), ElementsAre(1, 2, 4));
  EXPECT_EQ(store_->comparisons().GetComparisonRows(2, 0, 1000)->size(), 200u);
  ASSERT_TRUE(store_->runs().DeleteRun("b").ok());
  TidyAll();
  EXPECT_THAT(ids(), ElementsAre(4));
  ASSERT_TRUE(store_->comparisons().DeleteComparison(4).ok());
  TidyAll();
  EXPECT_EQ(Close().comparisons, 0);
}

TEST_F(StoreTidyTest, RoomOfDeletedComparisonsIsGivenBack) {
  Reopen();
  std::mt19937_64 random(1);
  const auto fill = [&] {
    const auto id = store_->comparisons().CreateComparison("document", {});
    ASSERT_TRUE(id.ok()) << id.status();
    std::vector<std::string> rows(2000);
    for (std::string& row : rows) {
      for (int i = 0; i < 40; ++i) row += std::to_string(random());
    }
    ASSERT_TRUE(store_->comparisons().PutComparisonRows(*id, 0, rows).ok());
  };
  for (int i = 0; i < 3; ++i) fill();
  ASSERT_TRUE(store_->Close().ok());
  Reopen();
  const uint64_t before = store_->upkeep().Stats().comparison_disk_bytes;
  EXPECT_GT(before, uint64_t{1} << 20);
  for (const uint64_t id : {1, 3}) {
    ASSERT_TRUE(store_->comparisons().DeleteComparison(id).ok());
  }
  TidyAll();
  EXPECT_LT(store_->upkeep().Stats().comparison_disk_bytes, before / 2);
  EXPECT_EQ(store_->comparisons().GetComparisonRows(2, 0, 9999)->size(), 2000u);
  ASSERT_TRUE(store_->comparisons().DeleteComparison(2).ok());
  TidyAll();
  EXPECT_LT(store_->upkeep().Stats().comparison_disk_bytes, uint64_t{64} << 10);
}

TEST_F(StoreTidyTest, ComparisonsAreNoReasonToGiveUpTensors) {
  Reopen();
  Fill("a", 3, 10);
  const auto id = store_->comparisons().CreateComparison("document", {});
  ASSERT_TRUE(id.ok());
  std::mt19937_64 random(1);
  std::vector<std::string> many(2000);
  for (std::string& row : many) {
    for (int i = 0; i < 40; ++i) row += std::to_string(random());
  }
  ASSERT_TRUE(store_->comparisons().PutComparisonRows(*id, 0, many).ok());
  ASSERT_TRUE(store_->Close().ok());
  Reopen();
  const StoreStats stats = store_->upkeep().Stats();
  RetentionPolicy policy;
  policy.disk_bytes_max = stats.segment_bytes + stats.index_bytes -
                          stats.comparison_disk_bytes + 4096;
  ASSERT_GT(stats.comparison_disk_bytes, uint64_t{1} << 20);
  const auto step = store_->upkeep().Retain(policy);
  ASSERT_TRUE(step.ok());
  EXPECT_EQ(step->excess_bytes, 0u);
  EXPECT_EQ(store_->upkeep().Stats().expired_bytes, 0u);
}

TEST_F(StoreTidyTest, RoomInTheIndexIsGivenBackAndCounts) {
  Reopen();
  Fill("kept", 1, 10);
  Fill("a", 60, 500);
  ASSERT_TRUE(store_->Close().ok());
  Reopen();
  const uint64_t before = store_->upkeep().Stats().index_bytes;
  ASSERT_GT(before, uint64_t{400} << 10);
  const uint64_t segments = store_->upkeep().Stats().segment_bytes;
  for (const char* run : {"kept", "a"}) {
    ASSERT_TRUE(
        store_->runs().SetRetention(run, {.pinned = true, .limits = {}}).ok());
  }
  RetentionPolicy policy;
  policy.disk_bytes_max = segments;
  EXPECT_GT(store_->upkeep().Retain(policy)->excess_bytes, before / 2);
  policy.disk_bytes_max += 2 * before;
  EXPECT_EQ(store_->upkeep().Retain(policy)->excess_bytes, 0u);
  ASSERT_TRUE(store_->runs().DeleteRun("a").ok());
  TidyAll();
  EXPECT_LT(store_->upkeep().Stats().index_bytes, before / 5);
  EXPECT_EQ(ScanKeys("kept").size(), 11u);
}

}  // namespace
}  // namespace msitd::storage
