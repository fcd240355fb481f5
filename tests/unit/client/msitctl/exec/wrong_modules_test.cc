// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/exec/wrong_modules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace msitd::msitctl {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

v1::ComparisonRow Row(const std::string& op, v1::Io io, v1::Verdict verdict,
                      int64_t token = 0, int32_t call = 0, int64_t rank = 0) {
  static int64_t sequence = 0;
  v1::ComparisonRow row;
  row.set_op(op);
  row.set_io(io);
  row.set_verdict(verdict);
  row.set_token(token);
  row.set_call(call);
  row.set_rank(rank);
  row.set_sequence(++sequence);
  return row;
}

std::vector<std::string> Ops(const std::vector<WrongModules::Module>& modules) {
  std::vector<std::string> out;
  for (const auto& each : modules) out.push_back(each.op);
  return out;
}

WrongModules Seen(const std::vector<v1::ComparisonRow>& rows) {
  WrongModules out;
  for (const auto& row : rows) out.See(row);
  return out;
}

TEST(WrongModulesTest, AreInnermostInTheOrderOfTheirCalls) {
  const WrongModules wrong = Seen({
      Row("root.b", v1::IO_OUTPUT, v1::FAIL),
      Row("root.a.x", v1::IO_OUTPUT, v1::FAIL),
      Row("root.a.x", v1::IO_INPUT, v1::PASS),
      Row("root.a", v1::IO_OUTPUT, v1::FAIL),
      Row("root.aa", v1::IO_OUTPUT, v1::PASS),
      Row("root", v1::IO_OUTPUT, v1::FAIL),
  });
  EXPECT_THAT(Ops(wrong.Innermost()), ElementsAre("root.b", "root.a.x"));
  EXPECT_THAT(wrong.Undecided(), IsEmpty());
  EXPECT_EQ(wrong.compared_count(), 5);
}

TEST(WrongModulesTest, AreThoseOfTheFirstTokenInAnyOrderOfRows) {
  std::vector<v1::ComparisonRow> rows = {
      Row("root.late", v1::IO_OUTPUT, v1::FAIL, 2),
      Row("root.first", v1::IO_OUTPUT, v1::FAIL, 1),
      Row("root.first", v1::IO_OUTPUT, v1::FAIL, 2),
      Row("root.late", v1::IO_INPUT, v1::FAIL, 0),
  };
  std::ranges::sort(rows, {}, &v1::ComparisonRow::sequence);
  for (int i = 0; i < 24; ++i) {
    const WrongModules wrong = Seen(rows);
    ASSERT_THAT(Ops(wrong.Innermost()), ElementsAre("root.first"));
    EXPECT_EQ(wrong.Innermost()[0].token, 1);
    EXPECT_EQ(wrong.Innermost()[0].result_count, 2);
    EXPECT_THAT(wrong.Undecided(), IsEmpty());
    std::ranges::next_permutation(rows, {}, &v1::ComparisonRow::sequence);
  }
}

TEST(WrongModulesTest, AreUndecidedWithOtherInputs) {
  for (const v1::Verdict verdict : {v1::FAIL, v1::UNMATCHED, v1::SKIPPED}) {
    const WrongModules wrong = Seen({
        Row("root.a", v1::IO_OUTPUT, v1::FAIL),
        Row("root.b", v1::IO_INPUT, verdict),
        Row("root.b", v1::IO_OUTPUT, v1::FAIL),
        Row("root", v1::IO_OUTPUT, v1::FAIL),
    });
    EXPECT_THAT(Ops(wrong.Innermost()), ElementsAre("root.a"));
    EXPECT_THAT(Ops(wrong.Undecided()), ElementsAre("root.b"));
  }
}

TEST(WrongModulesTest, AreDecidedByACallWithTheRightInputs) {
  const WrongModules wrong = Seen({
      Row("root.a", v1::IO_INPUT, v1::FAIL, 0, 0),
      Row("root.a", v1::IO_OUTPUT, v1::FAIL, 0, 0),
      Row("root.a", v1::IO_INPUT, v1::PASS, 0, 1),
      Row("root.a", v1::IO_OUTPUT, v1::FAIL, 0, 1),
      Row("root.b", v1::IO_INPUT, v1::FAIL, 0, 0, 0),
      Row("root.b", v1::IO_OUTPUT, v1::FAIL, 0, 0, 1),
  });
  EXPECT_THAT(Ops(wrong.Innermost()), ElementsAre("root.a", "root.b"));
  EXPECT_EQ(wrong.Innermost()[0].call, 1);
  EXPECT_THAT(wrong.Undecided(), IsEmpty());
}

TEST(WrongModulesTest, CountsWhatWasNotCompared) {
  const WrongModules wrong = Seen({
      Row("root.a", v1::IO_OUTPUT, v1::SKIPPED),
      Row("", v1::IO_UNSPECIFIED, v1::SKIPPED),
      Row("root.b", v1::IO_INPUT, v1::SKIPPED),
      Row("root.b", v1::IO_OUTPUT, v1::PASS),
  });
  EXPECT_EQ(wrong.skipped_count(), 2);
  EXPECT_EQ(wrong.compared_count(), 1);
  EXPECT_THAT(wrong.Innermost(), IsEmpty());
}

TEST(WrongModulesTest, HoldWhatIsUndecided) {
  const WrongModules wrong = Seen({
      Row("root.a", v1::IO_INPUT, v1::UNMATCHED),
      Row("root.a", v1::IO_OUTPUT, v1::FAIL),
      Row("root", v1::IO_INPUT, v1::PASS),
      Row("root", v1::IO_OUTPUT, v1::FAIL),
      Row("root.new", v1::IO_OUTPUT, v1::UNMATCHED),
  });
  EXPECT_THAT(Ops(wrong.Innermost()), ElementsAre("root"));
  EXPECT_THAT(Ops(wrong.Undecided()), ElementsAre("root.a"));
  EXPECT_EQ(wrong.unmatched_count(), 1);
}

}  // namespace
}  // namespace msitd::msitctl
