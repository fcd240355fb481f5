// SPDX-License-Identifier: Apache-2.0
#include "daemon/origin/padding_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <vector>

#include "daemon/origin/find_origin.h"
#include "tests/unit/daemon/origin/recorded_program.h"

namespace msitd::origin {
namespace {

using ::msitd::testing::FakeStore;
using Requests = std::vector<query::TokenRequest>;

TEST(UnusedRowsTest, CountsRowsOfNoRequest) {
  EXPECT_EQ(UnusedRows(Requests{{"a", "0:2"}, {"b", "3:4"}}, 8), 5);
  EXPECT_EQ(UnusedRows(Requests{{"a", "0:4"}, {"b", "1:2"}}, 4), 0);
  EXPECT_EQ(UnusedRows(Requests{}, 4), 4);
}

TEST(UnusedRowsTest, IsUnknownIfTheRowsOfARequestAre) {
  for (const char* rows : {"", ":", "1", "1:", ":1", "2:1", "-1:2", "0:9",
                           "0:2:1", "0:99999999999999999999"}) {
    EXPECT_EQ(UnusedRows(Requests{{"a", rows}}, 8), std::nullopt) << rows;
  }
}

TEST(PaddingRowsTest, AsManyElementsAsUnusedRowsHaveAreIgnored) {
  FakeStore store;
  CreateRun(store);
  RecordedProgram(store)
      .AddDocument("request/a", "0:1")
      .In("root", {1, 2, kNan, kNan})
      .Shape({2, 2})
      .Out("root", {1, 2, kNan, kNan})
      .Shape({2, 2});
  const OriginAnswer answer = Search(store);
  EXPECT_EQ(Describe(answer), "none");
  EXPECT_EQ(answer.ignored[static_cast<size_t>(IgnoreRule::kPadding)].count,
            2u);
}

TEST(PaddingRowsTest, ABadRowOfARequestIsNotIgnored) {
  FakeStore store;
  CreateRun(store);
  RecordedProgram(store)
      .AddDocument("request/a", "0:1")
      .In("root", {1, 2, 1, kNan, kNan, kNan})
      .Shape({2, 3})
      .Out("root", {1, kNan, 1, kNan, kNan, kNan})
      .Shape({2, 3});
  EXPECT_EQ(Describe(Search(store)), "op root");
}

TEST(PaddingRowsTest, BadColumnsDoNotMakeTheNextOpTheOrigin) {
  FakeStore store;
  CreateRun(store);
  RecordedProgram(store)
      .AddDocument("request/a", "0:1")
      .In("root", {1, 2, 3, 4})
      .Shape({2, 2})
      .In("root.0", {1, 2, 3, 4})
      .Shape({2, 2})
      .Out("root.0", {1, kNan, 3, kNan})
      .Shape({2, 2})
      .In("root.1", {1, kNan, 3, kNan})
      .Shape({2, 2})
      .Out("root.1", {kNan, kNan, kNan, kNan})
      .Shape({2, 2})
      .Out("root", {kNan, kNan, kNan, kNan})
      .Shape({2, 2});
  EXPECT_THAT(Describe(Search(store)),
              ::testing::HasSubstr("or the origin itself"));
}

TEST(PaddingRowsTest, ACallThatReceivedNoBadRowsIsNotJudged) {
  FakeStore store;
  CreateRun(store);
  RecordedProgram(store)
      .AddDocument("request/a", "0:1")
      .In("root", {1, 2, 3, 4})
      .Shape({2, 2})
      .Out("root", {1, kNan, 3, kNan})
      .Shape({2, 2});
  EXPECT_EQ(Search(store).unknown_count, 1u);
}

TEST(PaddingRowsTest, AGradientHasNoUnusedRows) {
  FakeStore store;
  CreateRun(store);
  RecordedProgram(store)
      .AddDocument("request/a", "0:1")
      .Add(Io::kGradOutput, "root", {1, 2, 3, 4})
      .Shape({2, 2})
      .Add(Io::kGradInput, "root", {1, 2, kNan, kNan})
      .Shape({2, 2});
  EXPECT_EQ(Describe(Search(store)), "op root");
}

}  // namespace
}  // namespace msitd::origin
