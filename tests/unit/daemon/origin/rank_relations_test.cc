// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/rank_relations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/daemon/origin/recorded_program.h"

namespace msitd::origin {
namespace {

using ::msitd::testing::FakeStore;
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

}  // namespace
}  // namespace msitd::origin
