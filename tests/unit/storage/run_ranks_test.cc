// SPDX-License-Identifier: Apache-2.0
#include "storage/run_ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "protos/capture/capture_policy.h"
#include "protos/status/status.h"
#include "tests/support/fake_store.h"
#include "tests/support/test_chunk.h"

namespace msitd::storage {
namespace {

using ::msitd::testing::FakeStore;
using ::msitd::testing::MakeTensor;
using ::msitd::testing::TestChunks;
using ::msitd::testing::TestTensor;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

RankRange One(int32_t rank) { return {rank, rank}; }

class RunRanksTest : public ::testing::Test {
 protected:
  void Make(int32_t world_size, const std::vector<int32_t>& ranks) {
    ASSERT_TRUE(store_.CreateRun({"r", world_size, {}}).ok());
    for (const int32_t rank : ranks) {
      TestTensor tensor = MakeTensor("r", 0, "op", 16);
      tensor.key.rank = rank;
      TestChunks chunk(/*stream_id=*/1 + rank, 0, {tensor});
      ASSERT_TRUE(store_.Append(chunk.span()).ok());
    }
  }

  void Ask(std::vector<int32_t> ranks, capture::Level level,
           int64_t first_token = 0) {
    capture::Rule rule;
    rule.level = level;
    rule.tensors.ranks = std::move(ranks);
    const capture::Policies policies = {{1, first_token, {rule}}};
    ASSERT_TRUE(store_.SetCapturePolicy("r", capture::Encode(policies)).ok());
  }

  RunRanks Find(const std::vector<int32_t>& selected = {}) {
    const auto run = store_.OpenRun("r");
    EXPECT_TRUE(run.ok()) << run.status();
    const auto ranks = FindRunRanks(**run, selected);
    EXPECT_TRUE(ranks.ok()) << ranks.status();
    return ranks.ok() ? *ranks : RunRanks();
  }

  FakeStore store_;
};

TEST_F(RunRanksTest, RanksOfTheWorldThatHaveNothingAreLacking) {
  Make(4, {2, 0});
  EXPECT_THAT(Find().held, ElementsAre(0, 2));
  EXPECT_THAT(Find().lacking.ranges(), ElementsAre(One(1), One(3)));
}

TEST_F(RunRanksTest, WorldThatIsNotKnownLacksNothing) {
  Make(0, {5});
  EXPECT_THAT(Find().held, ElementsAre(5));
  EXPECT_THAT(Find().lacking.ranges(), IsEmpty());
}

TEST_F(RunRanksTest, OnlyThoseCountThatAreSelected) {
  Make(4, {0, 1});
  EXPECT_THAT(Find({3, 1, 99}).held, ElementsAre(1));
  EXPECT_THAT(Find({3, 1, 99}).lacking.ranges(), ElementsAre(One(3)));
}

TEST_F(RunRanksTest, RanksThatThePolicyLeavesOutAreNotLacking) {
  Make(4, {0});
  Ask({0, 2}, capture::Level::kSummary);
  EXPECT_THAT(Find().lacking.ranges(), ElementsAre(One(2)));
  Ask({}, capture::Level::kOff);
  EXPECT_THAT(Find().lacking.ranges(), IsEmpty());
}

TEST_F(RunRanksTest, BelowThePolicyEverythingIsAskedFor) {
  Make(3, {0});
  Ask({0}, capture::Level::kFull, /*first_token=*/1);
  EXPECT_THAT(Find().lacking.ranges(), ElementsAre(RankRange{1, 2}));
}

TEST_F(RunRanksTest, RankThatWasAskedForNothingHasCome) {
  Make(3, {0});
  StreamCoverage coverage;
  coverage.seen_count = coverage.filtered_count = 9;
  ASSERT_TRUE(store_.ReportCoverage("r", 1, 7, coverage).ok());
  EXPECT_THAT(Find().held, ElementsAre(0, 1));
  // A rank that was asked to record something and kept nothing is still
  // missing.
  coverage.filtered_count = 8;
  ASSERT_TRUE(store_.ReportCoverage("r", 2, 8, coverage).ok());
  EXPECT_THAT(Find().lacking.ranges(), ElementsAre(One(2)));
}

TEST_F(RunRanksTest, RankThatStreamedAndSawNothingIsLacking) {
  Make(2, {0});
  ASSERT_TRUE(store_.ReportCoverage("r", 1, 7, StreamCoverage()).ok());
  EXPECT_THAT(Find().lacking.ranges(), ElementsAre(One(1)));
  // The rank was asked to record everything, and has recorded nothing.
  Ask({}, capture::Level::kFull);
  EXPECT_THAT(Find().lacking.ranges(), ElementsAre(One(1)));
  Ask({1}, capture::Level::kFull);
  EXPECT_THAT(Find().lacking.ranges(), ElementsAre(One(1)));
  // Hooks do not pass on records that a policy excludes.
  Ask({}, capture::Level::kOff);
  EXPECT_THAT(Find().lacking.ranges(), IsEmpty());
  capture::Rule rule;
  rule.level = capture::Level::kFull;
  rule.tensors.op_patterns = {"layers.0.*"};
  const capture::Policies policies = {{1, 0, {rule}}};
  ASSERT_TRUE(store_.SetCapturePolicy("r", capture::Encode(policies)).ok());
  EXPECT_THAT(Find().lacking.ranges(), IsEmpty());
}

TEST_F(RunRanksTest, LargestWorldIsAFewRanges) {
  constexpr int32_t kWorldSize = 1 << 20;
  Make(kWorldSize, {0, 7});
  EXPECT_THAT(Find().lacking.ranges(),
              ElementsAre(RankRange{1, 6}, RankRange{8, kWorldSize - 1}));
  // A rank that is excluded by name splits a range, and so does a rank that was
  // not asked to record.
  capture::Rule none;
  none.tensors.ranks = {100};
  capture::Rule all;
  all.level = capture::Level::kFull;
  const capture::Policies policies = {{1, 0, {none, all}}};
  ASSERT_TRUE(store_.SetCapturePolicy("r", capture::Encode(policies)).ok());
  StreamCoverage coverage;
  coverage.seen_count = coverage.filtered_count = 9;
  ASSERT_TRUE(store_.ReportCoverage("r", 5, 7, coverage).ok());
  EXPECT_THAT(Find().held, ElementsAre(0, 5, 7));
  EXPECT_THAT(Find().lacking.ranges(),
              ElementsAre(RankRange{1, 4}, One(6), RankRange{8, 99},
                          RankRange{101, kWorldSize - 1}));
}

TEST_F(RunRanksTest, RunThatIsNoLongerThereIsAnError) {
  Make(1, {0});
  const auto run = store_.OpenRun("r");
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE(store_.DeleteRun("r").ok());
  EXPECT_EQ(Reason(FindRunRanks(**run, {}).status()), "RUN_NOT_FOUND");
}

}  // namespace
}  // namespace msitd::storage
