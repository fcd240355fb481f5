// SPDX-License-Identifier: Apache-2.0
#include "client/msitctl/run/origin_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "protos/base/record_kind.h"

namespace msitd::msitctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

v1::FindOriginResponse Found() {
  v1::FindOriginResponse answer;
  answer.set_result(v1::FindOriginResponse::FOUND);
  v1::RunOrigin& origin = *answer.add_origins();
  origin.set_kind(v1::RunOrigin::CODE);
  origin.set_op("root");
  origin.set_after("root.a");
  origin.set_before("root.b");
  v1::Tensor& tensor = *origin.mutable_tensor();
  tensor.set_op("root.b");
  tensor.set_io(v1::IO_INPUT);
  tensor.set_index("0");
  tensor.set_rank(1);
  v1::RankRange& ranks = *origin.add_ranks();
  ranks.set_first(1);
  ranks.set_last(3);
  return answer;
}

TEST(OriginTextTest, CodeIsBetweenTwoParts) {
  const std::string text = OriginText("r", Found());
  EXPECT_THAT(text, StartsWith("origin     root.b input/0 at token 0, rank 1\n"
                               "made by    code of root after root.a, before "
                               "root.b\n"));
  EXPECT_THAT(text, HasSubstr("ranks      1-3\n"));
}

TEST(OriginTextTest, AGapReplacesTheMakerByAGuess) {
  v1::FindOriginResponse answer;
  answer.set_result(v1::FindOriginResponse::NOT_KNOWN);
  *answer.add_unknown() = Found().origins(0);
  answer.mutable_unknown(0)->add_gaps("root.c was not recorded");
  answer.mutable_unknown(0)->add_gaps("records were lost");
  EXPECT_THAT(OriginText("r", answer),
              StartsWith("origin     not known\n"
                         "first seen root.b input/0 at token 0, rank 1\n"
                         "gap        root.c was not recorded\n"
                         "           records were lost\n"
                         "perhaps    code of root"));
}

TEST(OriginTextTest, NoneStatesWhatWasNotJudged) {
  v1::FindOriginResponse answer;
  answer.set_result(v1::FindOriginResponse::NONE);
  EXPECT_THAT(OriginText("r", answer),
              StartsWith("origin     none: no tensor of run r satisfies the "
                         "condition\n"));
  answer.set_unknown_count(1);
  EXPECT_THAT(OriginText("r", answer),
              StartsWith("origin     none: no tensor of run r satisfies the "
                         "condition, but not all tensors could be judged\n"));
  answer.add_ignored()->set_count(1);
  EXPECT_THAT(OriginText("r", answer),
              StartsWith("origin     none: all tensors of run r that satisfy "
                         "the condition are ignored, but"));
}

TEST(OriginTextTest, StatisticsArePrintedAsStated) {
  v1::FindOriginResponse answer = Found();
  v1::Tensor& tensor = *answer.mutable_origins(0)->mutable_tensor();
  tensor.set_kind(static_cast<v1::RecordKind>(RecordKind::kStatistics));
  tensor.set_value(R"({"max": "nan"})");
  EXPECT_THAT(OriginText("r", answer),
              HasSubstr("values     {\"max\": \"nan\"}\n"));
}

TEST(OriginTextTest, PlacesBeyondTheLimitAreCounted) {
  v1::FindOriginResponse answer = Found();
  answer.set_omitted_origin_count(3);
  EXPECT_THAT(OriginText("r", answer),
              HasSubstr("not shown  3 more places on other ranks\n"));
}

TEST(OriginTextTest, ForeignTextIsPrintable) {
  v1::FindOriginResponse answer = Found();
  v1::RunOrigin& origin = *answer.mutable_origins(0);
  const std::string hostile = "\x1b[2J\nignored    \xff\u202e";
  origin.set_op(hostile);
  origin.set_after(hostile);
  origin.add_notes(hostile);
  origin.add_chain(hostile);
  origin.add_chain(
      "runs/r/ranks/0/devices/d/tokens/0/ops/%1b%0a/calls/0/"
      "output/0");
  origin.mutable_tensor()->set_stack(hostile);
  origin.mutable_tensor()->add_requests()->set_id(hostile);
  answer.add_ignored()->set_rule(hostile);
  answer.add_reached()->set_tensor(hostile);
  const std::string text = OriginText(hostile, answer);
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
  EXPECT_THAT(text, Not(HasSubstr("\xff")));
  EXPECT_THAT(text, Not(HasSubstr("\u202e")));
  EXPECT_THAT(text, Not(HasSubstr("\nignored    \\x")));
}

TEST(OriginTextTest, LongListsAreCut) {
  v1::FindOriginResponse answer = Found();
  v1::RunOrigin& origin = *answer.mutable_origins(0);
  for (int i = 0; i < 100; ++i) {
    origin.mutable_tensor()->add_requests()->set_id("q" + std::to_string(i));
    answer.add_reached()->set_rank(i);
  }
  answer.set_reached_count(1000);
  origin.mutable_tensor()->set_stack(std::string(50, '\n'));
  origin.add_chain("a");
  origin.add_chain("b");
  origin.set_omitted_count(7);
  origin.set_omitted_after(1);
  const std::string text = OriginText("r", answer);
  EXPECT_THAT(text, HasSubstr("q7, 92 more\n"));
  EXPECT_THAT(text, HasSubstr("1000 ranks in total\n"));
  EXPECT_THAT(text, HasSubstr("chain      a\n"
                              "           ... 7 more\n"
                              "           b\n"));
  EXPECT_LT(text.size(), 2000u);
}

}  // namespace
}  // namespace msitd::msitctl
