// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/job/comparison_outline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/support/either_store.h"
#include "tests/unit/daemon/compare/row_observer.h"
#include "tests/unit/daemon/compare/run_recorder.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using Place = std::tuple<int32_t, int64_t, int64_t, int64_t>;

absl::Status GoOn() { return absl::OkStatus(); }

class ComparisonOutlineTest : public testing::EitherStoreTest {
 protected:
  static void Record(RunRecorder& run, const std::string& op, int32_t rank,
                     int64_t token, float value = 1,
                     const std::string& placement = "") {
    RecordedTensor tensor = Floats(op, {value, value});
    tensor.rank = rank;
    tensor.token = token;
    tensor.placement = placement;
    run.Record(tensor);
  }

  void SetWorlds(int32_t count) {
    ASSERT_TRUE(store_.runs().SetWorldSize("g", count).ok());
    ASSERT_TRUE(store_.runs().SetWorldSize("t", count).ok());
  }

  ComparisonOutline Find() {
    absl::StatusOr<ComparisonOutline> outline =
        FindOutline(store_.readers(), plan_, GoOn);
    EXPECT_TRUE(outline.ok()) << outline.status();
    return outline.ok() ? *std::move(outline) : ComparisonOutline();
  }

  std::vector<Place> Spans() {
    std::vector<Place> out;
    for (const ComparisonOutline::Span& span : Find().spans) {
      out.emplace_back(span.rank, span.first_token, span.last_token,
                       span.group_count);
    }
    return out;
  }

  RunRecorder golden_{store_, "g"};
  RunRecorder target_{store_, "t"};
  ComparisonPlan plan_{"g", "t", {}, {}};
};

MSITD_ON_BOTH_STORES(ComparisonOutlineTest);

TEST_P(ComparisonOutlineTest, EmptyRunsHaveNothing) {
  const ComparisonOutline outline = Find();
  EXPECT_TRUE(outline.spans.empty());
  EXPECT_EQ(outline.sampled_group_count, 0);
}

TEST_P(ComparisonOutlineTest, TokensThatFollowEachOtherAreOneSpan) {
  for (const int64_t token : {0, 1, 2, 5}) Record(golden_, "op", 0, token);
  for (const int64_t token : {6, 9}) Record(target_, "op", 0, token);
  Record(target_, "op", 3, 1);
  EXPECT_THAT(Spans(), ElementsAre(Place(0, 0, 2, 3), Place(0, 5, 6, 2),
                                   Place(0, 9, 9, 1), Place(3, 1, 1, 1)));
  plan_.selector.ranks = {0};
  plan_.selector.tokens = {{1, 5}};
  EXPECT_THAT(Spans(), ElementsAre(Place(0, 1, 2, 2), Place(0, 5, 5, 1)));
}

TEST_P(ComparisonOutlineTest, RankWithSeveralDevicesIsWhole) {
  for (const int64_t token : {0, 1}) {
    Record(golden_, "op", 0, token);
    Record(golden_, "op", 1, token);
    RecordedTensor moved = Floats("op", {1});
    moved.token = token;
    moved.device = token == 0 ? "cpu:0" : "npu:0";
    target_.Record(moved);
  }
  const ComparisonOutline outline = Find();
  ASSERT_EQ(outline.spans.size(), 2);
  EXPECT_TRUE(outline.spans[0].is_whole);
  EXPECT_FALSE(outline.spans[1].is_whole);
}

TEST_P(ComparisonOutlineTest, RanksOfAMeshAreOne) {
  SetWorlds(4);
  for (int32_t rank = 0; rank < 4; ++rank) {
    const std::string mesh = rank < 2 ? "0+2/1:S(0)" : "2+2/1:S(0)";
    Record(golden_, "op", rank, 0, 1, mesh);
    Record(target_, "op", rank, 0, 1, mesh);
  }
  // The places are the number of a mesh, and each rank for tensors that only
  // this rank has.
  const std::vector<Place> spans = Spans();
  RowObserver observer;
  ASSERT_TRUE(ComparisonEngine(store_.readers(), plan_, observer).Run().ok());
  std::set<int32_t> with_rows;
  for (const v1::ComparisonRow& row : observer.rows) {
    with_rows.insert(row.rank());
  }
  EXPECT_THAT(with_rows, ElementsAre(0, 1));
  std::set<int32_t> planned;
  for (const Place& place : spans) planned.insert(std::get<0>(place));
  for (const int32_t rank : with_rows) EXPECT_TRUE(planned.contains(rank));
}

TEST_P(ComparisonOutlineTest, BytesAreThoseOfUnequalPairs) {
  for (int64_t token = 0; token < 100; ++token) {
    Record(golden_, "same", 0, token);
    Record(target_, "same", 0, token);
    Record(golden_, "other", 0, token, 1);
    Record(target_, "other", 0, token, 2);
    Record(golden_, "alone", 0, token);
  }
  const ComparisonOutline outline = Find();
  EXPECT_EQ(outline.sampled_group_count, 8);
  EXPECT_EQ(outline.sampled_pair_count, 24);
  EXPECT_EQ(outline.sampled_read_bytes, 8 * 2 * 8);
}

TEST_P(ComparisonOutlineTest, SpansBeyondTheMostAreJoined) {
  for (int64_t i = 0; i <= int64_t{kOutlineSpansMax}; ++i) {
    Record(golden_, "op", 0, 2 * i);
  }
  Record(golden_, "op", 1, 7);
  const ComparisonOutline outline = Find();
  EXPECT_LE(outline.spans.size(), kOutlineSpansMax);
  int64_t groups = 0;
  int64_t last = -1;
  for (const ComparisonOutline::Span& span : outline.spans) {
    groups += span.group_count;
    if (span.rank == 0) {
      EXPECT_GT(span.first_token, last);
      last = span.last_token;
    }
  }
  EXPECT_EQ(groups, int64_t{kOutlineSpansMax} + 2);
  EXPECT_EQ(last, 2 * int64_t{kOutlineSpansMax});
  EXPECT_EQ(outline.spans.back().rank, 1);
}

TEST_P(ComparisonOutlineTest, EndsWhenItIsToStop) {
  Record(golden_, "op", 0, 0);
  EXPECT_TRUE(absl::IsCancelled(FindOutline(store_.readers(), plan_, [] {
                                  return absl::CancelledError("enough");
                                }).status()));
}

TEST_P(ComparisonOutlineTest, RunThatIsNotThereIsAnError) {
  plan_.target_run = "none";
  EXPECT_TRUE(
      absl::IsNotFound(FindOutline(store_.readers(), plan_, GoOn).status()));
}

}  // namespace
}  // namespace msitd::compare
