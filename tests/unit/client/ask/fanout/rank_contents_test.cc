// SPDX-License-Identifier: Apache-2.0
#include "client/ask/fanout/rank_contents.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace msitd::ask {
namespace {

RankSet Ranks01() { return RankSet({{0, 1}}); }

v1::ListDigestsResponse Answer(uint64_t rank_0, uint64_t rank_1) {
  v1::ListDigestsResponse out;
  out.set_version(1);
  int32_t rank = 0;
  for (const uint64_t hash : {rank_0, rank_1}) {
    auto& digest = *out.add_digests();
    digest.set_rank(rank++);
    digest.set_record_count(2);
    digest.set_hash_low(hash);
  }
  return out;
}

TEST(RankContentsTest, CopiesAreNotDifferent) {
  RankContents contents;
  for (int i = 0; i < 3; ++i) contents.Add(Ranks01(), Answer(7, 8));
  EXPECT_TRUE(contents.Different().empty());
}

TEST(RankContentsTest, OneOtherShareMakesARankDifferent) {
  RankContents contents;
  contents.Add(Ranks01(), Answer(7, 8));
  contents.Add(Ranks01(), Answer(7, 9));
  contents.Add(Ranks01(), Answer(7, 8));
  EXPECT_EQ(contents.Different().Text(), "1");
}

TEST(RankContentsTest, WhatANodeDoesNotReportIsDifferent) {
  RankContents contents;
  contents.Add(Ranks01(), Answer(7, 8));
  contents.Add(Ranks01(), {});
  EXPECT_EQ(contents.Different().Text(), "0-1");
}

TEST(RankContentsTest, HashesOfAnotherVersionProveNothing) {
  RankContents contents;
  contents.Add(Ranks01(), Answer(7, 8));
  v1::ListDigestsResponse other = Answer(7, 8);
  other.set_version(2);
  contents.Add(Ranks01(), other);
  EXPECT_EQ(contents.Different().Text(), "0-1");
}

}  // namespace
}  // namespace msitd::ask
