// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/rank_relations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "tests/unit/daemon/origin/recorded_program.h"

namespace msitd::origin {
namespace {

using ::msitd::testing::FakeStore;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(RankRelationsTest, TheProgramOrdersModulesThatMayCommunicate) {
  FakeStore store;
  CreateRun(store, 2);
  RecordedProgram(store, 0).Call("first", {1}, {1}).Call("second", {1}, {kNan});
  RecordedProgram(store, 1)
      .Call("first", {1}, {kNan})
      .Call("second", {kNan}, {kNan});
  EXPECT_EQ(Describe(Search(store)), "op first rank 1");
}

TEST(RankRelationsTest, AStageOfAPipelineFollowsFromTheStageBefore) {
  FakeStore store;
  CreateRun(store, 2);
  RecordedProgram(store, 0)
      .In("root", {1, 2, 3})
      .Call("root.0", {1, 2, 3}, {1, kNan, 5})
      .Out("root", {1, kNan, 5});
  RecordedProgram(store, 1)
      .In("root", {1, kNan, 5})
      .Call("root.0", {1, kNan, 5}, {2, kNan, 6})
      .Out("root", {2, kNan, 6});
  EXPECT_EQ(Describe(Search(store)), "op root.0");
}

TEST(RankRelationsTest, EqualBytesOfConstantsProveNothing) {
  FakeStore store;
  CreateRun(store, 2);
  RecordedProgram(store, 0)
      .In("root", {1})
      .Call("root.0", {1}, {kNan})
      .Out("root", {kNan});
  RecordedProgram(store, 1).Call("root", {kNan}, {kNan});
  EXPECT_THAT(Describe(Search(store)), HasSubstr("order of the ranks"));
}

TEST(RankRelationsTest, IsNotKnownIfEachCanFollowFromTheOther) {
  FakeStore store;
  CreateRun(store, 2);
  RecordedProgram(store, 0).Call("left", {1}, {kNan});
  RecordedProgram(store, 1).Call("right", {1}, {kNan});
  const OriginAnswer answer = Search(store);
  EXPECT_THAT(Describe(answer), HasSubstr("order of the ranks is not known"));
  EXPECT_EQ(answer.unknown.size(), 2u);
}

TEST(RankRelationsTest, FunctionsOfSeveralRanksAreIndependent) {
  FakeStore store;
  CreateRun(store, 2);
  RecordedProgram(store, 0).Call("Torch.log", {1}, {kNan});
  RecordedProgram(store, 1).Call("Torch.sqrt", {1}, {kNan});
  const OriginAnswer answer = Search(store);
  EXPECT_EQ(answer.result, OriginAnswer::Result::kFound);
  EXPECT_EQ(answer.origins.size(), 2u);
}

TEST(RankRelationsTest, PlacesBeyondTheLimitAreCounted) {
  FakeStore store;
  CreateRun(store, kOriginsMax + 4);
  for (int32_t rank = 0; rank < static_cast<int32_t>(kOriginsMax) + 4; ++rank) {
    RecordedProgram(store, rank)
        .Call("Torch.f" + std::to_string(rank), {1}, {kNan});
  }
  const OriginAnswer answer = Search(store);
  EXPECT_EQ(answer.origins.size(), kOriginsMax);
  EXPECT_EQ(answer.omitted_count, 4u);
}

TEST(RankRelationsTest, AllRanksThatTheSymptomReachedAreListed) {
  FakeStore store;
  CreateRun(store, 4);
  for (const int32_t rank : {0, 2, 3}) {
    RecordedProgram program(store, rank);
    program.Call("first", {1}, {1});
    if (rank == 2) program.Token(1).Call("first", {1}, {1});
    program.Call("second", {1}, {kNan});
  }
  RecordedProgram(store, 1)
      .Call("first", {1}, {kNan})
      .Call("second", {kNan}, {kNan});
  const OriginAnswer answer = Search(store);
  EXPECT_EQ(Describe(answer), "op first rank 1");
  std::vector<int32_t> ranks;
  for (const ReachedRank& reached : answer.reached) {
    ranks.push_back(reached.rank);
  }
  EXPECT_THAT(ranks, ElementsAre(0, 2, 3));
  EXPECT_EQ(answer.reached_count, 3u);
}

}  // namespace
}  // namespace msitd::origin
