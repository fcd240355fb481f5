// SPDX-License-Identifier: Apache-2.0
// Tests of rows that are compared by request and position.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "protos/status/status.h"
#include "tests/unit/daemon/compare/joined_rows_fixture.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class RequestRowsTest : public JoinedRowsFixture {};

MSITD_ON_BOTH_STORES(RequestRowsTest);

TEST_P(RequestRowsTest, APromptPassesInAPaddedBatch) {
  Tell(golden_, 0, "a", "0:1@0/1,2");
  Record(golden_, 0, "op", {1, 2, 3, 4}, {1, 2, 2});
  Tell(target_, 0, "a", "0:1,1:3@0/2,3");
  Tell(target_, 0, "b", "1:2@0/2,3");
  Record(target_, 0, "op", {-1, -1, 1, 2, 3, 4, 9, 9, 9, 9, 9, 9}, {2, 3, 2});
  const auto& rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].request(), "a");
  EXPECT_EQ(rows[0].golden().view(), "positions 0-1");
  EXPECT_THAT(rows[0].target().shape(), ElementsAre(2, 2));
  EXPECT_EQ(comparison_.joined_request_count(), 1);
  EXPECT_EQ(comparison_.target_only_request_count(), 1);
}

TEST_P(RequestRowsTest, AFaultIsNamedWithItsRequest) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:2@0/4");
    Tell(*run, 0, "b", "2:4@0/4");
  }
  Record(golden_, 0, "op", {1, 2, 3, 4}, {4, 1});
  Record(target_, 0, "op", {1, 2, 3, 7}, {4, 1});
  const auto& rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].verdict(), v1::PASS);
  EXPECT_EQ(rows[1].verdict(), v1::FAIL);
  EXPECT_EQ(rows[1].request(), "b");
  EXPECT_THAT(rows[1].reason(), HasSubstr("at [1]: target 7, golden 4"));
  EXPECT_EQ(comparison_.first_divergence().request(), "b");
}

TEST_P(RequestRowsTest, ChunksAreJoined) {
  Tell(golden_, 0, "a", "0:1@0/1,5");
  Record(golden_, 0, "op", {1, 2, 3, 4, 5}, {1, 5, 1});
  Record(golden_, 0, "logits", {5}, {1, 1, 1});
  for (const auto& [token, first, end] :
       {std::tuple(0, 0, 2), std::tuple(1, 2, 4), std::tuple(2, 4, 5)}) {
    const int size = end - first;
    Tell(target_, token, "a", fmt::format("0:1@{}/1,{}", first, size));
    std::vector<float> values;
    for (int i = first; i < end; ++i) {
      values.push_back(static_cast<float>(i + 1));
    }
    Record(target_, token, "op", values, {1, size, 1});
    Record(target_, token, "logits", {static_cast<float>(end)}, {1, 1, 1});
  }
  const auto& rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_THAT(rows[0].target().shape(), ElementsAre(5));
  // Only the position that the golden run has.
  EXPECT_EQ(rows[1].verdict(), v1::PASS) << rows[1].reason();
  EXPECT_EQ(rows[1].golden().view(), "position 4");
  EXPECT_EQ(rows[1].target().view(), "position 4");
}

// A position that one run lacks must not look like one that was compared.
TEST_P(RequestRowsTest, WhatIsMissingIsReported) {
  Tell(golden_, 0, "a", "0:4@0/4");
  Record(golden_, 0, "op", {1, 2, 3, 4}, {4});
  Record(golden_, 1, "op", {1}, {1});
  Record(golden_, 2, "op", {1}, {1});
  Tell(target_, 0, "a", "0:3@0/3");
  Record(target_, 0, "op", {1, 2, 3}, {3});
  const auto& rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(rows[0].verdict(), v1::PASS);
  EXPECT_EQ(rows[1].reason(), "the target run lacks position 3 of request a");
  EXPECT_EQ(
      rows[2].reason(),
      "tokens of this rank without rows of requests, from this one on: 2");
  EXPECT_EQ(comparison_.not_compared_count(), 2);
}

TEST_P(RequestRowsTest, DocumentsThatCannotBeReadAreReported) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:1@0/2");
    Tell(*run, 0, "b", run == &golden_ ? "row 1" : "1:2@0/2");
    Record(*run, 0, "op", {1, 2}, {2});
  }
  const auto& rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].reason(),
            "request documents of run g without known rows: 1");
  EXPECT_EQ(comparison_.not_compared_count(), 1);
  EXPECT_EQ(comparison_.pass_count(), 1);
}

TEST_P(RequestRowsTest, ATensorThatLacksATokenIsNotCompared) {
  Tell(golden_, 0, "a", "0:1@0/1,4");
  Record(golden_, 0, "op", {1, 2, 3, 4}, {1, 4});
  for (int token : {0, 1}) {
    Tell(target_, token, "a", fmt::format("0:1@{}/1,2", 2 * token));
    Record(target_, token, "other", {1, 2}, {1, 2});
  }
  Record(target_, 0, "op", {1, 2}, {1, 2});
  std::map<std::string, v1::ComparisonRow> rows;
  for (const v1::ComparisonRow& row : Rows()) rows.emplace(row.op(), row);
  EXPECT_EQ(rows.at("op").verdict(), v1::SKIPPED);
  EXPECT_TRUE(rows.at("op").not_compared());
  EXPECT_THAT(rows.at("op").reason(), HasSubstr("it has 2 of 4"));
  EXPECT_EQ(rows.at("other").verdict(), v1::UNMATCHED);
}

TEST_P(RequestRowsTest, ATensorWithoutRowsIsNotCompared) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:2@0/2");
    Record(*run, 0, "op", {1, 2}, {2});
    Record(*run, 0, "loss", {1}, {});
  }
  std::map<std::string, v1::ComparisonRow> rows;
  for (const v1::ComparisonRow& row : Rows()) rows.emplace(row.op(), row);
  EXPECT_EQ(rows.at("op").verdict(), v1::PASS);
  EXPECT_EQ(rows.at("loss").verdict(), v1::SKIPPED);
  EXPECT_TRUE(rows.at("loss").not_compared());
  EXPECT_THAT(rows.at("loss").reason(), HasSubstr("no dimension of []"));
}

TEST_P(RequestRowsTest, StateIsComparedAsAWholeAndOnce) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:1@0/2");
    Tell(*run, 0, "b", "1:2@0/2");
    RecordedTensor weight = Floats("weight", {1, 2, 3});
    weight.io = Io::kState;
    run->Record(weight);
    Record(*run, 0, "op", {1, 2}, {2});
  }
  const auto& rows = Rows();
  EXPECT_THAT(rows, SizeIs(3));
  EXPECT_EQ(comparison_.pass_count(), 3);
}

TEST_P(RequestRowsTest, ArgumentsThatDescribeABatchNeedNoCounterpart) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:1@0/1,2");
    Record(*run, 0, "op", {1, 2}, {1, 2});
    RecordedTensor mask;
    mask.op = "op";
    mask.io = Io::kInput;
    mask.dtype = DType::kBool;
    mask.bytes = run == &golden_ ? std::string(1, '\1') : std::string(2, '\1');
    mask.shape = {static_cast<int64_t>(mask.bytes.size())};
    run->Record(mask);
  }
  RecordedTensor positions = Floats("op", {0, 1});
  positions.io = Io::kInput;
  positions.index = "position_ids";
  positions.shape = {1, 2};
  target_.Record(positions);
  EXPECT_THAT(Rows(), SizeIs(4));
  EXPECT_EQ(comparison_.pass_count(), 1);
  EXPECT_EQ(comparison_.skipped_count(), 3);
  EXPECT_EQ(comparison_.not_compared_count(), 0);
  // Any other argument does.
  positions.index = "scale";
  target_.Record(positions);
  Rows();
  EXPECT_EQ(comparison_.unmatched_count(), 1);
}

// Masks are listed where they are in the order of the golden run.
TEST_P(RequestRowsTest, MasksDoNotHideWhatAnOpReceived) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:1@0/1,2");
    RecordedTensor extra = Floats("op", {0, 1});
    extra.io = Io::kInput;
    extra.index = run == &golden_ ? "mask" : "position_ids";
    extra.shape = {1, 2};
    run->Record(extra);
    RecordedTensor input = Bfloats("op", {1, 2});
    input.io = Io::kInput;
    input.shape = {1, 2};
    run->Record(input);
    RecordedTensor output = Bfloats("op", {1, run == &golden_ ? 2.0F : 3.0F});
    output.shape = {1, 2};
    run->Record(output);
  }
  const auto& rows = Rows();
  ASSERT_THAT(rows, SizeIs(4));
  EXPECT_EQ(rows[0].index(), "mask");
  EXPECT_EQ(rows[3].index(), "position_ids");
  EXPECT_EQ(comparison_.fail_count(), 1);
  EXPECT_EQ(comparison_.skipped_count(), 2);
}

// The result of a classifier does not depend on where the padding is.
TEST_P(RequestRowsTest, ResultsForEachRowAreCompared) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "short", "0:1,0:2@0/2,4");
    Tell(*run, 0, "long", "1:2@0/2,4");
    Record(*run, 0, "head", {run == &golden_ ? 5.0F : -77.0F, 1}, {2});
    Record(*run, 0, "last", {1, 1}, {2, 1, 1});
  }
  Rows();
  EXPECT_EQ(comparison_.fail_count(), 1);
  EXPECT_EQ(comparison_.first_divergence().request(), "short");
  // The last column is padding of the short request.
  EXPECT_EQ(comparison_.pass_count(), 2);
  EXPECT_EQ(comparison_.not_compared_count(), 1);
  EXPECT_THAT(comparison_.first_not_compared().reason(),
              HasSubstr("it has no row of this request"));
}

TEST_P(RequestRowsTest, LogitsOfChunksNeedNoCounterpart) {
  for (int token : {0, 1}) {
    Tell(golden_, token, "a", fmt::format("0:1@{}/1,2", 2 * token));
    Record(golden_, token, "logits", {2 + 2.0F * static_cast<float>(token)},
           {1, 1, 1});
  }
  Tell(target_, 0, "a", "0:1@0/1,4");
  Record(target_, 0, "logits", {4}, {1, 1, 1});
  const auto& rows = Rows();
  ASSERT_THAT(rows, SizeIs(2));
  EXPECT_EQ(rows[0].verdict(), v1::SKIPPED);
  EXPECT_FALSE(rows[0].not_compared());
  EXPECT_EQ(rows[1].verdict(), v1::PASS) << rows[1].reason();
}

TEST_P(RequestRowsTest, MasksOfOtherLengthsAreNotCompared) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    const bool is_golden = run == &golden_;
    Tell(*run, 0, "a", is_golden ? "0:1@2/1,1" : "0:1@2/2,1");
    RecordedTensor mask =
        Floats("root", std::vector<float>(is_golden ? 3 : 10));
    mask.io = Io::kInput;
    mask.index = "attention_mask";
    mask.shape = {is_golden ? 1 : 2, is_golden ? 3 : 5};
    run->Record(mask);
    Record(*run, 0, "weights", std::vector<float>(is_golden ? 6 : 20, 1),
           {is_golden ? 1 : 2, 2, 1, is_golden ? 3 : 5});
  }
  Rows();
  EXPECT_EQ(comparison_.fail_count(), 0);
  EXPECT_EQ(comparison_.skipped_count(), 3);
  EXPECT_EQ(comparison_.not_compared_count(), 1);
}

// With as many heads as positions, one run seems to have another layout.
TEST_P(RequestRowsTest, WeightsOfAsManyHeadsAsPositionsDoNotFail) {
  Tell(golden_, 0, "a", "0:1@0/1,4");
  Record(golden_, 0, "weights", std::vector<float>(64, 1), {1, 4, 4, 4});
  Tell(target_, 0, "a", "1:2,1:5@0/2,5");
  Record(target_, 0, "weights", std::vector<float>(800, 1), {2, 4, 5, 20});
  Rows();
  EXPECT_EQ(comparison_.fail_count(), 0);
  EXPECT_EQ(comparison_.not_compared_count(), 1);
}

TEST_P(RequestRowsTest, WeightsAreComparedWhateverTheOrderOfRequests) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    const bool is_golden = run == &golden_;
    for (int token : {0, 1}) {
      Tell(*run, token, (token == 0) == is_golden ? "a" : "b", "0:1@0/1");
      Record(*run, token, "op", {(token == 0) == is_golden ? 1.0F : 2.0F}, {1});
    }
    RecordedTensor weight = Floats("op", {7});
    weight.io = Io::kWeight;
    run->Record(weight);
  }
  Rows();
  EXPECT_EQ(comparison_.pass_count(), 3);
  EXPECT_EQ(comparison_.unmatched_count(), 0);
}

TEST_P(RequestRowsTest, CopiesOfAllTokensMustAgree) {
  Tell(golden_, 0, "a", "0:1@0/1,2");
  Record(golden_, 0, "op", {1, 2}, {1, 2});
  for (int token : {0, 1}) {
    Tell(target_, token, "a", fmt::format("0:1@{}/1,1", token));
    for (int rank : {0, 1}) {
      RecordedTensor copy = Floats(
          "op", {rank + token == 2 ? 99 : static_cast<float>(token + 1)});
      copy.shape = {1, 1};
      copy.rank = rank;
      copy.token = token;
      copy.placement = "0+2/1:R";
      target_.Record(copy);
    }
  }
  Rows();
  EXPECT_EQ(comparison_.fail_count(), 1);
}

TEST_P(RequestRowsTest, AFilterByTokenDoesNotChangePositions) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:2");
    Record(*run, 0, "op", {1, 2}, {2});
    Tell(*run, 1, "a", "0:1");
    Record(*run, 1, "op", {3}, {1});
  }
  plan_.selector.tokens = {{1, 1}};
  const auto& rows = Rows();
  ASSERT_THAT(rows, SizeIs(1));
  EXPECT_EQ(rows[0].verdict(), v1::PASS) << rows[0].reason();
  EXPECT_EQ(rows[0].golden().view(), "position 2");
}

TEST_P(RequestRowsTest, RequestsCanBeSelected) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    Tell(*run, 0, "a", "0:1@0/2");
    Tell(*run, 0, "b", "1:2@0/2");
    Record(*run, 0, "op", {1, run == &golden_ ? 2.0F : 3.0F}, {2});
  }
  plan_.selector.requests = {"a"};
  EXPECT_THAT(Rows(), SizeIs(1));
  EXPECT_EQ(comparison_.pass_count(), 1);
  plan_.selector.requests = {"b"};
  EXPECT_EQ(Rows().at(0).verdict(), v1::FAIL);
  plan_.selector.requests = {"a", "typo"};
  EXPECT_EQ(Rows().at(0).reason(), "run g has no rows of request typo");
  plan_.selector.requests = {"c"};
  EXPECT_THAT(
      std::string(Message(Compare())),
      HasSubstr("run g has no rows of the selected requests and tokens"));
}

TEST_P(RequestRowsTest, ShapesThatDifferSuggestIt) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    const int64_t count = run == &golden_ ? 2 : 3;
    Tell(*run, 0, "a", fmt::format("0:1@0/1,{}", count));
    Record(*run, 0, "op", std::vector<float>(static_cast<size_t>(count), 1),
           {1, count});
  }
  matching_.set_by_request(false);
  Rows();
  EXPECT_THAT(comparison_.pairing_hints(), ElementsAre("--by request"));
  matching_.set_by_request(true);
  Rows();
  EXPECT_THAT(comparison_.pairing_hints(), IsEmpty());
}

TEST_P(RequestRowsTest, RunsWithoutRequestsAreRefused) {
  Record(golden_, 0, "op", {1}, {1});
  Record(target_, 0, "op", {1}, {1});
  EXPECT_THAT(std::string(Message(Compare())),
              HasSubstr("run g has no rows of requests"));
}

TEST_P(RequestRowsTest, TokensThatDifferAreJoinedByPosition) {
  // Continuous batching against one request after the other.
  Tell(golden_, 0, "a", "0:2@0/2");
  Record(golden_, 0, "op", {1, 2}, {2});
  Tell(golden_, 1, "a", "0:1@2/1");
  Record(golden_, 1, "op", {3}, {1});
  Tell(golden_, 2, "b", "0:3@0/3");
  Record(golden_, 2, "op", {4, 5, 6}, {3});
  Tell(target_, 0, "b", "0:2@0/2");
  Record(target_, 0, "op", {4, 5}, {2});
  Tell(target_, 1, "a", "1:4@0/4");
  Tell(target_, 1, "b", "0:1@2/4");
  Record(target_, 1, "op", {6, 1, 2, 3}, {4});
  const auto& rows = Rows();
  ASSERT_THAT(rows, SizeIs(3));
  EXPECT_EQ(comparison_.pass_count(), 3);
  EXPECT_EQ(rows[2].token(), 2);
}

}  // namespace
}  // namespace msitd::compare
