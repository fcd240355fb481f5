// SPDX-License-Identifier: Apache-2.0
#include "client/ask/text/partial_text.h"

#include <gtest/gtest.h>

namespace msitd::ask {
namespace {

void Add(int first, int last, RankRanges& ranges) {
  v1::RankRange& range = *ranges.Add();
  range.set_first(first);
  range.set_last(last);
}

TEST(PartialTextTest, CountsRanksAndNamesThoseThatAreLacking) {
  RankRanges held;
  RankRanges lacking;
  Add(0, 1, held);
  Add(5, 5, held);
  Add(2, 4, lacking);
  EXPECT_EQ(PartialText("tp8", held, lacking),
            "partial: 3 of 6 ranks; run tp8 lacks ranks 2-4");
}

TEST(PartialTextTest, ListsThatMayBeCutAreLowerBounds) {
  RankRanges held;
  RankRanges lacking;
  Add(0, 0, held);
  for (int i = 0; i < 4095; ++i) Add(2 * i + 1, 2 * i + 1, lacking);
  EXPECT_EQ(PartialText("r", held, lacking),
            "partial: 1 of 4096 ranks; run r lacks ranks "
            "1,3,5,7,9,11,13,15,...");
  Add(8191, 8191, lacking);
  EXPECT_EQ(PartialText("r", held, lacking),
            "partial: 1 of at least 4097 ranks; run r lacks ranks "
            "1,3,5,7,9,11,13,15,...");
  EXPECT_EQ(PartialText("r", lacking, held),
            "partial: at least 4096 of at least 4097 ranks; run r lacks rank "
            "0");
}

}  // namespace
}  // namespace msitd::ask
