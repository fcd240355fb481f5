// SPDX-License-Identifier: Apache-2.0
// Tests of caches that are compared up to the positions that they have.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/compare/job/comparison_engine.h"
#include "protos/base/cache_places.h"
#include "tests/unit/daemon/compare/joined_rows_fixture.h"

namespace msitd::compare {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr float kGarbage = std::numeric_limits<float>::quiet_NaN();

class JoinedCachesTest : public JoinedRowsFixture {
 protected:
  static void TellCache(RunRecorder& run, int64_t token, const std::string& id,
                        const std::string& text,
                        const std::string& name = "kv_cache") {
    RecordText(run, token, std::string(kCacheOpPrefix) + id,
               name + " = " + text);
  }

  static void RecordCache(RunRecorder& run, int64_t token,
                          const std::vector<float>& values,
                          std::vector<int64_t> shape, Io io = Io::kOutput,
                          std::string_view index = "kv_cache") {
    RecordedTensor out = Shaped(token, "attn", values, std::move(shape));
    out.io = io;
    out.index = index;
    run.Record(out);
  }

  // Records a row of each position that a token processes.
  static void RecordRows(RunRecorder& run, int64_t token, int64_t first,
                         int64_t end) {
    std::vector<float> values;
    for (int64_t i = first; i < end; ++i) {
      values.push_back(static_cast<float>(i));
    }
    Tell(run, token, "a", fmt::format("0:1@{}/1,{}", first, end - first));
    Record(run, token, "op", values, {1, end - first});
  }

  // The row of the cache at a token.
  v1::ComparisonRow CacheRow(int64_t token = 0) {
    for (const v1::ComparisonRow& row : Rows()) {
      if (row.op() == "attn" && row.token() == token) return row;
    }
    ADD_FAILURE() << "no row";
    return {};
  }
};

MSITD_ON_BOTH_STORES(JoinedCachesTest);

TEST_P(JoinedCachesTest, ADynamicCacheEqualsAStaticOne) {
  RecordRows(golden_, 0, 0, 3);
  TellCache(golden_, 0, "a", "row 0 dims 0,2: 0:3");
  RecordCache(golden_, 0, {1, 2, 3}, {1, 1, 3, 1});
  // The second row of a padded batch, in a cache of 6 columns.
  Tell(target_, 0, "a", "1:2,1:4@0/2,4");
  Tell(target_, 0, "b", "0:1@0/2,4");
  Record(target_, 0, "op", {9, 9, 9, 9, 9, 0, 1, 2}, {2, 4});
  TellCache(target_, 0, "a", "row 1 dims 0,2: 1:4");
  TellCache(target_, 0, "b", "row 0 dims 0,2: 0:4");
  RecordCache(target_, 0,
              {7, 7, 7, 7, 7, 7, kGarbage, 1, 2, 3, kGarbage, kGarbage},
              {2, 1, 6, 1});
  const v1::ComparisonRow row = CacheRow();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_EQ(row.golden().view(), "cached positions 0-2");
  EXPECT_THAT(row.target().shape(), ElementsAre(3));
  EXPECT_EQ(row.target().nan_count(), 0);
  EXPECT_EQ(comparison_.not_compared_count(), 0);
  EXPECT_EQ(comparison_.fail_count(), 0);
}

TEST_P(JoinedCachesTest, AFaultInOnePageIsFound) {
  RecordRows(golden_, 0, 0, 3);
  TellCache(golden_, 0, "a", "row 0 dims 0,1: 0:3");
  RecordCache(golden_, 0, {1, 2, 3}, {1, 3, 1});
  RecordRows(target_, 0, 0, 3);
  TellCache(target_, 0, "a", "pages of 2 dims 0,1: 3,1");
  RecordCache(target_, 0,
              {kGarbage, kGarbage, 3.5F, kGarbage, kGarbage, kGarbage, 1, 2},
              {4, 2, 1});
  const v1::ComparisonRow row = CacheRow();
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(row.request(), "a");
  EXPECT_THAT(row.reason(), HasSubstr("at [2]: target 3.5, golden 3"));
}

// A cache has the positions of earlier tokens too.
TEST_P(JoinedCachesTest, EarlierPositionsAreCompared) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    for (int64_t token = 0; token < 3; ++token) {
      RecordRows(*run, token, token, token + 1);
      TellCache(*run, token, "a", "row 0 dims 0,1: 0:3");
      std::vector<float> values = {1, 2, 3};
      if (run == &target_ && token == 2) values[0] = 7;
      RecordCache(*run, token, values, {1, 3, 1});
    }
  }
  EXPECT_EQ(CacheRow(1).verdict(), v1::PASS);
  const v1::ComparisonRow row = CacheRow(2);
  EXPECT_EQ(row.verdict(), v1::FAIL);
  EXPECT_EQ(row.golden().view(), "cached positions 0-2");
  EXPECT_EQ(comparison_.first_divergence().token(), 2);
}

TEST_P(JoinedCachesTest, ChunksAreComparedWithTheWholePrompt) {
  RecordRows(golden_, 0, 0, 4);
  TellCache(golden_, 0, "a", "row 0 dims 0,1: 0:4");
  RecordCache(golden_, 0, {1, 2, 3, 4}, {1, 4, 1});
  for (const int64_t token : {0, 1}) {
    RecordRows(target_, token, 2 * token, 2 * token + 2);
    TellCache(target_, token, "a",
              fmt::format("row 0 dims 0,1: 0:{}", 2 * token + 2));
    std::vector<float> values = {1, 2, 3, 4};
    values.resize(static_cast<size_t>(2 * token + 2));
    RecordCache(target_, token, values, {1, 2 * token + 2, 1});
    // The cache before the second forward has no counterpart.
    if (token == 1) RecordCache(target_, token, {1, 2}, {1, 2, 1}, Io::kInput);
  }
  Rows();
  EXPECT_EQ(comparison_.fail_count(), 0);
  EXPECT_EQ(comparison_.unmatched_count(), 0);
  EXPECT_EQ(comparison_.not_compared_count(), 0);
  EXPECT_EQ(comparison_.pass_count(), 2);
  EXPECT_EQ(comparison_.skipped_count(), 1);
}

// The other way round, each chunk of the golden run has a part of the cache.
TEST_P(JoinedCachesTest, TheWholePromptIsComparedWithChunks) {
  for (const int64_t token : {0, 1}) {
    RecordRows(golden_, token, 2 * token, 2 * token + 2);
    TellCache(golden_, token, "a",
              fmt::format("row 0 dims 0,1: 0:{}", 2 * token + 2));
    std::vector<float> values = {1, 2, 3, 4};
    values.resize(static_cast<size_t>(2 * token + 2));
    RecordCache(golden_, token, values, {1, 2 * token + 2, 1});
    if (token == 1) RecordCache(golden_, token, {1, 2}, {1, 2, 1}, Io::kInput);
  }
  RecordRows(target_, 0, 0, 4);
  TellCache(target_, 0, "a", "row 0 dims 0,1: 0:4");
  RecordCache(target_, 0, {1, 2, 3, 4}, {1, 4, 1});
  Rows();
  EXPECT_EQ(comparison_.fail_count(), 0);
  EXPECT_EQ(comparison_.not_compared_count(), 0);
  EXPECT_EQ(comparison_.unmatched_count(), 0);
  EXPECT_EQ(comparison_.pass_count(), 4);
}

// An argument has the positions before the forward for certain, and no others.
TEST_P(JoinedCachesTest, ArgumentsAreComparedAsBeforeTheForward) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    for (const int64_t token : {0, 1}) {
      RecordRows(*run, token, 2 * token, 2 * token + 2);
      TellCache(*run, token, "a",
                fmt::format("row 0 dims 0,1: 0:{}", 2 * token + 2));
      const float later = run == &golden_ ? kGarbage : 3;
      RecordCache(*run, token, {1, 2, later, later}, {1, 4, 1}, Io::kInput);
    }
  }
  const v1::ComparisonRow row = CacheRow(1);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_EQ(row.golden().view(), "cached positions 0-1");
  const v1::ComparisonRow first = CacheRow(0);
  EXPECT_EQ(first.verdict(), v1::SKIPPED);
  EXPECT_FALSE(first.not_compared());
}

TEST_P(JoinedCachesTest, PositionsThatAreProcessedAgainAreLeftOut) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    RecordRows(*run, 0, 0, 2);
    TellCache(*run, 0, "a", "row 0 dims 0,1: 0:2");
    RecordCache(*run, 0, {1, 2, 0, 0}, {1, 4, 1});
  }
  // A draft of two positions, the second of which is rejected.
  RecordRows(golden_, 1, 2, 4);
  TellCache(golden_, 1, "a", "row 0 dims 0,1: 0:4");
  RecordCache(golden_, 1, {1, 2, 3, 99}, {1, 4, 1});
  RecordRows(golden_, 2, 3, 4);
  TellCache(golden_, 2, "a", "row 0 dims 0,1: 0:4");
  RecordCache(golden_, 2, {1, 2, 3, 4}, {1, 4, 1});
  for (const int64_t token : {1, 2}) {
    RecordRows(target_, token, token + 1, token + 2);
    TellCache(target_, token, "a",
              fmt::format("row 0 dims 0,1: 0:{}", token + 2));
    RecordCache(target_, token, {1, 2, 3, token == 1 ? 0.0F : 4.0F}, {1, 4, 1});
  }
  EXPECT_EQ(CacheRow(1).golden().view(), "cached positions 0-2");
  EXPECT_EQ(comparison_.fail_count(), 0);
  EXPECT_EQ(comparison_.not_compared_count(), 0);
}

// Two requests share a page, and another one uses a page again later.
TEST_P(JoinedCachesTest, TheTableOfTheTokenCounts) {
  Tell(golden_, 0, "a", "0:3@0/3");
  Record(golden_, 0, "op", {0, 0, 0}, {3});
  TellCache(golden_, 0, "a", "row 0 dims 0,1: 0:3");
  RecordCache(golden_, 0, {1, 2, 3}, {1, 3, 1});
  Tell(golden_, 1, "b", "0:4@0/4");
  Record(golden_, 1, "op", {0, 0, 0, 0}, {4});
  TellCache(golden_, 1, "b", "row 0 dims 0,1: 0:4");
  RecordCache(golden_, 1, {1, 2, 5, 6}, {1, 4, 1});
  Tell(target_, 0, "a", "0:3@0/3");
  Record(target_, 0, "op", {0, 0, 0}, {3});
  TellCache(target_, 0, "a", "pages of 2 dims 0,1: 2,0");
  RecordCache(target_, 0, {3, 8, 8, 8, 1, 2}, {3, 2, 1});
  // The first two positions of b were cached, and were never processed.
  Tell(target_, 1, "b", "0:2@2/2");
  Record(target_, 1, "op", {0, 0}, {2});
  TellCache(target_, 1, "b", "pages of 2 dims 0,1: 2,0");
  RecordCache(target_, 1, {5, 6, 8, 8, 1, 2}, {3, 2, 1});
  int cached = 0;
  for (const v1::ComparisonRow& row : Rows()) {
    if (row.op() != "attn") continue;
    ++cached;
    EXPECT_EQ(row.verdict(), v1::PASS) << row.request() << row.reason();
  }
  EXPECT_EQ(cached, 2);
  EXPECT_EQ(comparison_.fail_count(), 0);
}

TEST_P(JoinedCachesTest, KeysAndValuesTogetherAreSeparatedByViews) {
  RecordRows(golden_, 0, 0, 2);
  TellCache(golden_, 0, "a", "row 0 dims 0,1: 0:2");
  RecordCache(golden_, 0, {1, 2}, {1, 2, 1});
  RecordRows(target_, 0, 0, 2);
  TellCache(target_, 0, "a", "pages of 2 dims 1,2: 1");
  RecordCache(target_, 0, {8, 8, 1, 2, 9, 9, 5, 6}, {2, 2, 2, 1});
  AddView(false, "attn", "slice(0,0:1)").set_index("kv_cache");
  const v1::ComparisonRow row = CacheRow();
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_EQ(row.target().view(), "cached positions 0-1 of slice(0,0:1)");
}

// Caches whose places are unknown have no verdict on their values.
TEST_P(JoinedCachesTest, CachesWithoutPlacesAreReported) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    RecordRows(*run, 0, 0, 2);
    RecordCache(*run, 0, {1, run == &golden_ ? 2.0F : 3.0F, kGarbage},
                {1, 3, 1});
  }
  v1::ComparisonRow row = CacheRow();
  EXPECT_EQ(row.verdict(), v1::SKIPPED);
  EXPECT_TRUE(row.not_compared());
  EXPECT_THAT(row.reason(), HasSubstr("it is a cache, and where the request"));
  // Only one run has them.
  TellCache(golden_, 0, "a", "row 0 dims 0,1: 0:2");
  row = CacheRow();
  EXPECT_EQ(row.verdict(), v1::SKIPPED);
  EXPECT_TRUE(row.not_compared());
  TellCache(target_, 0, "a", "unknown: it has a sliding window");
  EXPECT_THAT(CacheRow().reason(), HasSubstr("it has a sliding window"));
  EXPECT_TRUE(CacheRow().not_compared());
}

TEST_P(JoinedCachesTest, TablesThatDoNotFitAreReasons) {
  struct Case {
    std::string text;
    std::string reason;
  };
  const Case cases[] = {
      {"pages of 2 dims 0,1: 9", "its places include page 9 of 4"},
      {"pages of 2 dims 0,1: 3,3", "names an element twice"},
      {"pages of 2 dims 0,1:", "the places of 0 of 2 positions"},
      {"pages of 2 dims 0,1: -1", "unknown form"},
      {"\xff\xfe", "was not recorded"},
      {"pages of 2 dims 0,7: 1", "lacks the dimensions"},
      {"row 9 dims 0,1: 0:2", "the request is in row 9 of 4"},
  };
  int64_t token = 0;
  for (const Case& one : cases) {
    for (RunRecorder* const run : {&golden_, &target_}) {
      Tell(*run, token, fmt::format("r{}", token), "0:2@0/2");
      Record(*run, token, "op", {0, 0}, {2});
      TellCache(*run, token, fmt::format("r{}", token),
                run == &golden_ ? "pages of 2 dims 0,1: 1" : one.text);
      RecordCache(*run, token, {0, 0, 1, 2, 0, 0, 0, 0}, {4, 2, 1});
    }
    ++token;
  }
  std::vector<std::string> reasons;
  for (const v1::ComparisonRow& row : Rows()) {
    if (row.op() != "attn") continue;
    EXPECT_EQ(row.verdict(), v1::SKIPPED);
    EXPECT_TRUE(row.not_compared());
    reasons.push_back(row.reason());
  }
  ASSERT_THAT(reasons, SizeIs(std::size(cases)));
  for (size_t i = 0; i < std::size(cases); ++i) {
    EXPECT_THAT(reasons[i], HasSubstr(cases[i].reason));
  }
}

TEST_P(JoinedCachesTest, CountersOfACacheDescribeTheBatch) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    RecordRows(*run, 0, 0, 2);
    TellCache(*run, 0, "a", "row 0 dims 0,1: 0:2", "cache");
    RecordCache(*run, 0, {1, 2}, {1, 2, 1}, Io::kOutput, "cache.0.keys");
    RecordCache(*run, 0, {run == &golden_ ? 2.0F : 9.0F}, {}, Io::kOutput,
                "cache.0.length");
  }
  Rows();
  EXPECT_EQ(comparison_.fail_count(), 0);
  EXPECT_EQ(comparison_.pass_count(), 2);
  EXPECT_EQ(comparison_.not_compared_count(), 0);
}

// Buffers are recorded as states, at any time.
TEST_P(JoinedCachesTest, StatesAreComparedUpToThePositionsBefore) {
  for (RunRecorder* const run : {&golden_, &target_}) {
    RecordRows(*run, 0, 0, 1);
    RecordRows(*run, 1, 1, 2);
    TellCache(*run, 1, "a", "row 0 dims 0,1: 0:2", "k_cache");
    const float later = run == &golden_ ? 5 : kGarbage;
    RecordCache(*run, 1, {1, later, later}, {1, 3, 1}, Io::kState, "k_cache");
  }
  const v1::ComparisonRow row = CacheRow(1);
  EXPECT_EQ(row.verdict(), v1::PASS) << row.reason();
  EXPECT_EQ(row.golden().view(), "cached position 0");
}

}  // namespace
}  // namespace msitd::compare
