// SPDX-License-Identifier: Apache-2.0
#include "client/text/maker_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace msitd::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

v1::ComparisonRow Row() {
  v1::ComparisonRow row;
  row.set_op("a");
  row.set_io(v1::IO_OUTPUT);
  row.set_index("0");
  return row;
}

std::string CodeOf(const std::string& op, const std::string& after,
                   const std::string& before) {
  v1::Maker maker;
  maker.set_kind(v1::Maker::OWN_CODE);
  maker.set_op(op);
  maker.set_after(after);
  maker.set_before(before);
  *maker.mutable_row() = Row();
  return MakerText(maker, /*may_diverge_before=*/false);
}

TEST(MakerTextTest, CodeIsWhereItsNeighboursAreKnown) {
  EXPECT_THAT(CodeOf("a", "a.b", "a.c"),
              StartsWith("own code of a, between a.b and a.c; a output/0"));
  EXPECT_THAT(CodeOf("a", "a.b", ""),
              StartsWith("own code of a, after a.b; a output/0"));
  EXPECT_THAT(CodeOf("a", "", "a.c"),
              StartsWith("own code of a, before a.c; a output/0"));
  EXPECT_THAT(CodeOf("a", "", ""), StartsWith("own code of a; a output/0"));
  EXPECT_THAT(CodeOf("", "b", ""), StartsWith("code after b; a output/0"));
  EXPECT_THAT(CodeOf("", "", ""), StartsWith("code; a output/0"));
}

TEST(MakerTextTest, ARowOfJoinedShardsNamesAllTheirRanks) {
  v1::ComparisonRow row = Row();
  EXPECT_THAT(RowText(row), HasSubstr(" output/0, rank 0, token 0"));
  for (const int rank : {0, 1, 2, 5}) row.mutable_target()->add_ranks(rank);
  EXPECT_THAT(RowText(row), HasSubstr(" output/0, ranks 0-2,5, token 0"));
  for (const int rank : {0, 1}) row.mutable_golden()->add_ranks(rank);
  EXPECT_THAT(RowText(row), HasSubstr(", ranks 0-2,5 (golden 0-1), token 0"));
  row.mutable_target()->clear_ranks();
  EXPECT_THAT(RowText(row), HasSubstr(", ranks 0-1, token 0"));
  row.mutable_golden()->clear_ranks();
  // One of several ranks is picked.
  row.mutable_target()->add_ranks(1);
  EXPECT_THAT(RowText(row), HasSubstr(", rank 1, token 0"));
}

}  // namespace
}  // namespace msitd::ctl
