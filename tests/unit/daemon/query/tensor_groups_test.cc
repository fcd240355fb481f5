// SPDX-License-Identifier: Apache-2.0
#include "daemon/query/tensor_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/support/test_chunk.h"

namespace msitd::query {
namespace {

using ::msitd::testing::FakeStore;
using ::msitd::testing::MakeTensor;
using ::msitd::testing::TestChunks;
using ::msitd::testing::TestTensor;
using ::testing::ElementsAre;

constexpr int kRankCount = 2;
// Enough tensors for a second thread to take part.
constexpr int kTokenCount = 200;
constexpr int kOpCount = 20;

absl::Status GoOn() { return absl::OkStatus(); }

// Appends chunks of run `r`, whose records are all from one rank.
class Appender {
 public:
  Appender(FakeStore& store, int32_t rank) : store_(store), rank_(rank) {}
  ~Appender() { Flush(); }

  void Add(int64_t token, const std::string& op, uint64_t bytes,
           uint32_t seed) {
    records_.push_back(MakeTensor("r", token, op, bytes, seed));
    records_.back().key.rank = rank_;
    if (records_.size() == kRecordsPerChunk) Flush();
  }

 private:
  static constexpr size_t kRecordsPerChunk = 512;

  void Flush() {
    if (records_.empty()) return;
    TestChunks chunks(/*stream_id=*/1 + rank_, chunk_count_++, records_);
    EXPECT_TRUE(store_.Append(chunks.span()).ok());
    records_.clear();
  }

  FakeStore& store_;
  const int32_t rank_;
  uint64_t chunk_count_ = 0;
  std::vector<TestTensor> records_;
};

void MakeRun(FakeStore& store) {
  ASSERT_TRUE(store.CreateRun({"r", 0, {}}).ok());
  uint32_t seed = 0;
  for (int rank = 0; rank < kRankCount; ++rank) {
    Appender appender(store, rank);
    for (int token = 0; token < kTokenCount; ++token) {
      for (int op = 0; op < kOpCount; ++op) {
        appender.Add(token, "op" + std::to_string(op), 1 + op, seed++);
      }
    }
  }
}

// Computes the groups with one scan, in the order of keys. Sums of bytes are
// exact in any order.
std::map<std::string, Group> GroupsOfOneScan(
    storage::RunReader& run, const Selector& selector,
    std::string (*key_of)(const TensorKey&)) {
  std::map<std::string, Group> out;
  auto scan = run.Scan(selector, "");
  EXPECT_TRUE(scan.ok());
  storage::TensorInfo tensor;
  while (*(*scan)->Next(tensor)) {
    Group& group = out[key_of(tensor.key)];
    group.key = key_of(tensor.key);
    group.summary = Merge(group.summary, tensor.summary);
    ++group.tensor_count;
    group.tensor_bytes += tensor.tensor_bytes;
  }
  return out;
}

void ExpectEqual(const std::vector<Group>& groups,
                 const std::map<std::string, Group>& expected) {
  EXPECT_EQ(groups.size(), expected.size());
  for (const Group& group : groups) {
    const auto it = expected.find(group.key);
    ASSERT_NE(it, expected.end()) << group.key;
    EXPECT_EQ(group.tensor_count, it->second.tensor_count) << group.key;
    EXPECT_EQ(group.tensor_bytes, it->second.tensor_bytes) << group.key;
    EXPECT_EQ(group.summary, it->second.summary) << group.key;
  }
}

TEST(TensorGroupsTest, TwoHalvesGiveTheGroupsOfOneScan) {
  FakeStore store;
  MakeRun(store);
  const auto run = *store.OpenRun("r");
  struct Case {
    GroupBy group_by;
    std::string (*key_of)(const TensorKey&);
  };
  const Case cases[] = {
      {GroupBy::kNone, [](const TensorKey&) { return std::string(); }},
      {GroupBy::kRank,
       [](const TensorKey& key) { return std::to_string(key.rank); }},
      {GroupBy::kToken,
       [](const TensorKey& key) { return std::to_string(key.token); }},
      {GroupBy::kOp, [](const TensorKey& key) { return key.op; }},
      {GroupBy::kDevice, [](const TensorKey& key) { return key.device; }}};
  std::vector<Selector> selectors(5);
  selectors[1].tokens = {{7, 7}};
  selectors[2].tokens = {{190, int64_t{1} << 39}, {3, 4}, {0, 3}};
  selectors[3].ranks = {1};
  selectors[4].op_patterns = {"op1*"};
  for (const Selector& selector : selectors) {
    for (const Case& one : cases) {
      const auto groups = SummarizeTensors(*run, selector, one.group_by, GoOn);
      ASSERT_TRUE(groups.ok()) << groups.status();
      ExpectEqual(*groups, GroupsOfOneScan(*run, selector, one.key_of));
    }
  }
}

TEST(TensorGroupsTest, GroupsComeByNumberOrByFirstAppearance) {
  FakeStore store;
  MakeRun(store);
  const auto run = *store.OpenRun("r");
  const auto keys_of = [&](GroupBy group_by) {
    std::vector<std::string> out;
    Selector selector;
    selector.tokens = {{8, 11}};
    selector.op_patterns = {"op8", "op1?"};
    const auto groups = SummarizeTensors(*run, selector, group_by, GoOn);
    EXPECT_TRUE(groups.ok()) << groups.status();
    for (const Group& group : *groups) out.push_back(group.key);
    return out;
  };
  EXPECT_THAT(keys_of(GroupBy::kRank), ElementsAre("0", "1"));
  EXPECT_THAT(keys_of(GroupBy::kToken), ElementsAre("8", "9", "10", "11"));
  std::vector<std::string> ops = {"op8"};
  for (int op = 10; op < kOpCount; ++op)
    ops.push_back("op" + std::to_string(op));
  EXPECT_THAT(keys_of(GroupBy::kOp), ::testing::UnorderedElementsAreArray(ops));
  EXPECT_THAT(keys_of(GroupBy::kNone), ElementsAre(""));
}

TEST(TensorGroupsTest, NothingSelectedIsOneEmptyGroupOrNone) {
  FakeStore store;
  MakeRun(store);
  const auto run = *store.OpenRun("r");
  Selector selector;
  selector.op_patterns = {"none"};
  auto groups = SummarizeTensors(*run, selector, GroupBy::kNone, GoOn);
  ASSERT_TRUE(groups.ok());
  ASSERT_EQ(groups->size(), 1);
  EXPECT_EQ(groups->front().tensor_count, 0);
  groups = SummarizeTensors(*run, selector, GroupBy::kOp, GoOn);
  ASSERT_TRUE(groups.ok());
  EXPECT_TRUE(groups->empty());
  ASSERT_TRUE(store.DeleteRun("r").ok());
  EXPECT_TRUE(absl::IsNotFound(
      SummarizeTensors(*run, {}, GroupBy::kNone, GoOn).status()));
}

TEST(TensorGroupsTest, EitherHalfIsStopped) {
  FakeStore store;
  MakeRun(store);
  const auto run = *store.OpenRun("r");
  std::atomic<int> asked = 0;
  const auto count = [&asked] {
    ++asked;
    return absl::OkStatus();
  };
  ASSERT_TRUE(SummarizeTensors(*run, {}, GroupBy::kOp, count).ok());
  const int all = asked;
  ASSERT_GT(all, 20);
  for (int last = 0; last < all; ++last) {
    asked = 0;
    const auto stop = [&asked, last] {
      return asked++ < last ? absl::OkStatus() : absl::CancelledError("stop");
    };
    EXPECT_TRUE(absl::IsCancelled(
        SummarizeTensors(*run, {}, GroupBy::kOp, stop).status()))
        << last;
  }
}

TEST(TensorGroupsTest, TooManyGroupsOverBothHalvesAreRefused) {
  FakeStore store;
  ASSERT_TRUE(store.CreateRun({"r", 0, {}}).ok());
  const auto run = *store.OpenRun("r");
  {
    Appender appender(store, 0);
    for (size_t token = 0; token <= kGroupsMax; ++token) {
      appender.Add(static_cast<int64_t>(token), "op", 1, 1);
    }
  }
  const absl::Status refused =
      SummarizeTensors(*run, {}, GroupBy::kToken, GoOn).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_EQ(Reason(refused), "FIELD_INVALID");
  Selector selector;
  selector.tokens = {{1, kGroupsMax}};
  EXPECT_TRUE(SummarizeTensors(*run, selector, GroupBy::kToken, GoOn).ok());
}

}  // namespace
}  // namespace msitd::query
