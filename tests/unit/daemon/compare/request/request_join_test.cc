// SPDX-License-Identifier: Apache-2.0
// Tests of request_book and request_join->
#include "daemon/compare/request/request_join.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

struct Document {
  int64_t token = 0;
  std::string id;
  std::string text;
  int32_t rank = 0;
};

RequestBook BookOf(const std::vector<Document>& documents) {
  RequestBookWriter writer;
  for (const Document& one : documents) {
    writer.Add(one.rank, one.token, one.id, one.text);
  }
  return std::move(writer).Finish();
}

RequestJoin::Requests RequestsOf(const std::vector<Document>& documents) {
  return BookOf(documents).ranks();
}

std::unique_ptr<const RequestJoin> JoinOf(
    RequestJoin::Requests golden, RequestJoin::Requests target,
    std::vector<std::string> selected = {},
    std::function<bool(int64_t)> has_token = {}) {
  auto join = RequestJoin::Create(std::move(golden), std::move(target),
                                  std::move(selected), std::move(has_token),
                                  [] { return absl::OkStatus(); });
  EXPECT_TRUE(join.ok()) << join.status();
  return *std::move(join);
}

// Describes the ranges of a side, such as `t0[0,4) t1[4,5)`.
std::string TextOf(const std::vector<PieceRange>& ranges) {
  std::string out;
  for (const PieceRange& range : ranges) {
    out +=
        fmt::format("{}t{}[{},{})", out.empty() ? "" : " ", range.piece.token,
                    range.positions.first, range.positions.end);
  }
  return out;
}

TEST(RequestBookTest, PositionsContinueAfterTheLastPiece) {
  const RequestBook book = BookOf(
      {{0, "a", "0:3"}, {1, "a", "2:4"}, {2, "a", "0:1@9"}, {3, "a", "0:2"}});
  const auto& pieces = book.ranks().at(0).at(0).pieces;
  ASSERT_THAT(pieces, SizeIs(4));
  EXPECT_EQ(pieces[1].positions, (RowRange{3, 5}));
  EXPECT_EQ(pieces[2].positions, (RowRange{9, 10}));
  EXPECT_EQ(pieces[3].positions, (RowRange{10, 12}));
}

TEST(RequestBookTest, ABatchWithoutLengthsEndsWithItsLastRow) {
  const RequestBook book =
      BookOf({{0, "a", "4:9"}, {0, "b", "0:4"}, {0, "c", "oops"}});
  const RequestPiece& a = book.ranks().at(0).at(1).pieces.at(0);
  EXPECT_EQ(a.batch, (BatchShape{9, 0, 2}));
  EXPECT_EQ(a.number, 1);
  EXPECT_EQ(book.unknown_count(), 1u);
}

TEST(RequestBookTest, ContradictingLengthsMakeAllRowsUnknown) {
  const RequestBook book = BookOf({{0, "a", "0:1/2,9"}, {0, "b", "1:2/2,8"}});
  EXPECT_THAT(book.ranks(), IsEmpty());
  EXPECT_EQ(book.unknown_count(), 2u);
}

// Lengths without a position mean that the rank did not know it.
TEST(RequestBookTest, UnknownPositionsAreNotGuessed) {
  const RequestBook book = BookOf({{0, "a", "0:1/2"},
                                   {1, "a", "0:1"},
                                   {2, "a", "0:1@5"},
                                   {3, "a", "0:2"},
                                   {4, "a", "broken"},
                                   {5, "a", "0:1"},
                                   {6, "b", "0:1"},
                                   {6, "c", "1:2,2:4@0/2,4"}});
  EXPECT_EQ(book.unknown_count(), 5u);
  const auto& requests = book.ranks().at(0);
  ASSERT_THAT(requests.at(0).pieces, SizeIs(2));
  EXPECT_EQ(requests.at(0).pieces[1].positions, (RowRange{6, 8}));
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(requests.at(1).id, "c");
}

TEST(RequestBookTest, PositionsDoNotOverflow) {
  const char* const huge =
      "0:1099511627776,0:8388607@1099511627776/1099511627776,8388607";
  const RequestBook book = BookOf({{0, "a", huge}, {1, "a", "0:1"}});
  EXPECT_EQ(book.unknown_count(), 2u);
}

TEST(RequestJoinTest, PositionsThatAreProcessedAgainAreNotSettled) {
  // A draft of positions 3 to 5, of which 4 and 5 are rejected.
  const auto join = JoinOf(
      RequestsOf({{0, "a", "0:3@0"}, {1, "a", "0:3@3"}, {2, "a", "0:2@4"}}),
      RequestsOf({{0, "a", "0:4@0"}, {1, "a", "0:2@4"}, {2, "a", "0:1@2"}}));
  const auto parts = [&](int64_t token) { return join->PartsOf(0, token); };
  constexpr int64_t kAll = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(parts(0).at(0).golden_settled, 3);
  EXPECT_EQ(parts(1).at(0).golden_settled, 4);
  EXPECT_EQ(parts(2).at(0).golden_settled, kAll);
  // The target run processes position 2 again at the end.
  EXPECT_EQ(parts(0).at(0).target_settled, kAll);
  EXPECT_EQ(parts(2).at(0).target_settled, 2);
  EXPECT_TRUE(parts(0).at(0).is_last_of_piece);
}

TEST(RequestJoinTest, UnselectedTokensDeterminePositions) {
  const std::vector<Document> documents = {
      {0, "a", "0:3"}, {1, "a", "0:1@2"}, {2, "a", "0:1"}};
  const auto join = JoinOf(RequestsOf(documents), RequestsOf(documents), {},
                           [](int64_t token) { return token != 1; });
  EXPECT_THAT(join->tokens().at(0), ElementsAre(0, 2));
  // The last position of the first token was replaced.
  EXPECT_EQ(TextOf(join->PartsOf(0, 0).at(0).golden), "t0[0,2)");
  EXPECT_EQ(TextOf(join->PartsOf(0, 2).at(0).target), "t2[3,4)");
}

TEST(RequestBookTest, RowsOfTwoRequestsAreUnknown) {
  const RequestBook book = BookOf({{0, "a", "0:4"},
                                   {0, "b", "1:2"},
                                   {0, "c", "3:5"},
                                   {0, "d", "5:6"},
                                   {1, "a", "0:1,0:3@0/1,8"},
                                   {1, "b", "0:1,3:8@0/1,8"}});
  EXPECT_EQ(book.unknown_count(), 3u);
  ASSERT_THAT(book.ranks().at(0), SizeIs(3));
  EXPECT_EQ(book.ranks().at(0).at(0).id, "d");
}

TEST(RequestJoinTest, APrefillIsJoinedWithItsChunks) {
  const auto join = JoinOf(RequestsOf({{0, "a", "0:1@0/1,12"}}),
                           RequestsOf({{0, "a", "0:1@0/1,4"},
                                       {1, "a", "0:1@4/1,4"},
                                       {2, "a", "0:1@8/1,4"}}));
  const auto parts = join->PartsOf(0, 0);
  ASSERT_THAT(parts, SizeIs(1));
  EXPECT_EQ(TextOf(parts[0].golden), "t0[0,12)");
  EXPECT_EQ(TextOf(parts[0].target), "t0[0,4) t1[4,8) t2[8,12)");
  EXPECT_EQ(join->joined_count(), 1u);
  EXPECT_EQ(join->target_only_positions(), 0u);
}

TEST(RequestJoinTest, PositionsOfOneRunAreReported) {
  const auto join = JoinOf(RequestsOf({{0, "a", "0:6"}, {1, "b", "0:2"}}),
                           RequestsOf({{0, "a", "0:2"}, {1, "a", "0:9@4"}}));
  const auto parts = join->PartsOf(0, 0);
  ASSERT_THAT(parts, SizeIs(2));
  EXPECT_EQ(TextOf(parts[0].target), "t0[0,2) t1[4,6)");
  EXPECT_EQ(TextOf(parts[0].golden), "t0[0,2) t0[4,6)");
  EXPECT_THAT(parts[1].missing, ElementsAre(RowRange{2, 4}));
  EXPECT_EQ(join->target_only_positions(), 7u);
  EXPECT_EQ(join->golden_only_count(), 1u);
  const auto absent = join->PartsOf(0, 1);
  ASSERT_THAT(absent, SizeIs(1));
  EXPECT_EQ(absent[0].golden_id, "b");
  EXPECT_EQ(absent[0].target_id, "");
  EXPECT_THAT(absent[0].missing, ElementsAre(RowRange{0, 2}));
}

// Rejected drafts of speculative decoding are processed again.
TEST(RequestJoinTest, TheLastTimeCounts) {
  const auto join =
      JoinOf(RequestsOf({{0, "a", "0:4"}, {1, "a", "0:1"}, {2, "a", "0:1"}}),
             RequestsOf({{0, "a", "0:4"}, {1, "a", "0:3"}, {2, "a", "0:2@5"}}));
  EXPECT_EQ(TextOf(join->PartsOf(0, 1).at(0).target), "t1[4,5)");
  EXPECT_EQ(TextOf(join->PartsOf(0, 2).at(0).target), "t2[5,6)");
}

TEST(RequestJoinTest, AGoldenPieceThatIsReplacedIsNotCompared) {
  const auto join = JoinOf(RequestsOf({{0, "a", "0:4"}, {1, "a", "0:2@2"}}),
                           RequestsOf({{0, "a", "0:4"}}));
  EXPECT_EQ(TextOf(join->PartsOf(0, 0).at(0).golden), "t0[0,2)");
  EXPECT_EQ(TextOf(join->PartsOf(0, 1).at(0).golden), "t1[2,4)");
}

TEST(RequestJoinTest, ManyTokensAreDividedIntoParts) {
  std::vector<Document> target;
  for (int64_t token = 0; token < 150; ++token) {
    target.push_back({token, "a", "0:1"});
  }
  const auto join = JoinOf(RequestsOf({{0, "a", "0:150"}}), RequestsOf(target));
  const auto parts = join->PartsOf(0, 0);
  ASSERT_THAT(parts, SizeIs(3));
  EXPECT_EQ(TextOf(parts[1].golden), "t0[60,120)");
  EXPECT_THAT(parts[1].target, SizeIs(60));
}

TEST(RequestJoinTest, RequestsOfOtherRanksAreFound) {
  const auto join = JoinOf(
      RequestsOf({{0, "a", "0:1", 0}, {0, "b", "0:1", 1}}),
      RequestsOf({{5, "a", "0:1", 0}, {6, "b", "0:1", 0}, {7, "a", "0:1", 1}}));
  EXPECT_EQ(join->PartsOf(0, 0).at(0).target_number, 0);
  EXPECT_EQ(TextOf(join->PartsOf(0, 0).at(0).target), "t5[0,1)");
  EXPECT_EQ(TextOf(join->PartsOf(1, 0).at(0).target), "t6[0,1)");
  EXPECT_EQ(join->joined_count(), 2u);
}

TEST(RequestJoinTest, IdsAreReplacedByOrderOnlyIfNothingContradictsIt) {
  const auto joined = [](std::vector<Document> golden,
                         std::vector<Document> target) {
    const auto join = JoinOf(RequestsOf(golden), RequestsOf(target));
    return std::pair(join->joined_count(), join->paired_by_order_count());
  };
  // None in common, and as many.
  EXPECT_EQ(joined({{0, "x", "0:1"}, {0, "y", "1:2"}},
                   {{0, "p", "0:1"}, {0, "q", "1:2"}}),
            std::pair(size_t{2}, size_t{2}));
  EXPECT_EQ(joined({{0, "x", "0:1"}, {0, "y", "1:2"}}, {{0, "p", "0:1"}}),
            std::pair(size_t{0}, size_t{0}));
  // Some in common: other ids are different requests.
  EXPECT_EQ(joined({{0, "x", "0:1"}, {0, "y", "1:2"}},
                   {{0, "x", "0:1"}, {0, "q", "1:2"}}),
            std::pair(size_t{1}, size_t{0}));
  // Unless the ids are derived from the tokens that a run processed first.
  EXPECT_EQ(joined({{0, "auto-1", "0:1"}, {0, "auto-2", "1:2"}},
                   {{0, "auto-1", "0:1"}, {0, "auto-3", "1:2"}}),
            std::pair(size_t{2}, size_t{1}));
}

TEST(RequestJoinTest, SelectedRequestsAreCountedOnly) {
  const std::vector<Document> golden = {{0, "a", "0:1"}, {1, "b", "0:1"}};
  const auto join =
      JoinOf(RequestsOf(golden), RequestsOf({{0, "a", "0:1"}, {1, "c", "0:1"}}),
             {"b"});
  EXPECT_EQ(join->joined_count(), 0u);
  EXPECT_EQ(join->golden_only_count(), 1u);
  EXPECT_EQ(join->target_only_count(), 0u);
  EXPECT_THAT(join->PartsOf(0, 0), IsEmpty());
  EXPECT_THAT(join->PartsOf(0, 1), SizeIs(1));
  // Ids that differ are paired before requests are selected.
  const auto renamed =
      JoinOf(RequestsOf(golden), RequestsOf({{0, "x", "0:1"}, {1, "y", "0:1"}}),
             {"b"});
  EXPECT_EQ(renamed->PartsOf(0, 1).at(0).target_id, "y");
  EXPECT_EQ(renamed->joined_count(), 1u);
  EXPECT_EQ(renamed->paired_by_order_count(), 1u);
}

// Any division into pieces has each position once.
TEST(RequestJoinTest, RandomPiecesCoverEachPositionOnce) {
  std::mt19937 random(7);
  const auto divide = [&](int64_t size) {
    std::vector<Document> out;
    int64_t at = 0;
    for (int64_t token = 0; at < size; ++token) {
      // Sometimes a step back.
      at = std::max<int64_t>(0, at - static_cast<int64_t>(random() % 3));
      const int64_t count =
          std::min<int64_t>(size - at, 1 + static_cast<int64_t>(random() % 9));
      out.push_back({token, "a", fmt::format("0:{}@{}", count, at)});
      at += count;
    }
    return out;
  };
  for (int i = 0; i < 300; ++i) {
    const int64_t size = 1 + static_cast<int64_t>(random() % 80);
    const auto join =
        JoinOf(RequestsOf(divide(size)), RequestsOf(divide(size)));
    std::vector<int> seen(static_cast<size_t>(size));
    for (const int64_t token : join->tokens().at(0)) {
      for (const JoinedPart& part : join->PartsOf(0, token)) {
        ASSERT_THAT(part.missing, IsEmpty());
        int64_t golden = 0;
        int64_t target = 0;
        for (const PieceRange& range : part.golden) {
          golden += range.positions.size();
          for (int64_t p = range.positions.first; p < range.positions.end;
               ++p) {
            ++seen[static_cast<size_t>(p)];
          }
        }
        for (const PieceRange& range : part.target) {
          target += range.positions.size();
          ASSERT_LE(range.piece.positions.first, range.positions.first);
          ASSERT_GE(range.piece.positions.end, range.positions.end);
        }
        ASSERT_EQ(golden, target);
      }
    }
    ASSERT_EQ(std::count(seen.begin(), seen.end(), 1), size);
  }
}

}  // namespace
}  // namespace msitd::compare
