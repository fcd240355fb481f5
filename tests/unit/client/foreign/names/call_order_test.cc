// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/names/call_order.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

namespace msitd::names {
namespace {

using ::testing::ElementsAreArray;

TEST(CallOrderTest, NumbersGoByTheirSizeAndPartsComeBeforeTheirOp) {
  const std::vector<std::string> sorted = {
      "embed",        "layers.1.fc",   "layers.1", "layers.2.attn",
      "layers.2.fc1", "layers.2.fc10", "layers.2", "layers.10.fc",
      "layers.10",    "layers",        "norm_2",   "norm_10",
      "x/1",          "x/02",          "x/2"};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t k = 0; k < sorted.size(); ++k) {
      EXPECT_EQ(EndsBefore(sorted[i], sorted[k]), i < k)
          << sorted[i] << " " << sorted[k];
    }
  }
  std::vector<std::string> names = sorted;
  std::sort(names.begin(), names.end());
  std::sort(names.begin(), names.end(), EndsBefore);
  EXPECT_THAT(names, ElementsAreArray(sorted));
}

TEST(CallOrderTest, NaturalOrderTakesLeadingZerosForNothing) {
  EXPECT_EQ(CompareNatural("a01", "a1"), 0);
  EXPECT_LT(CompareNatural("a9", "a10"), 0);
  EXPECT_GT(CompareNatural("a10b", "a10a"), 0);
  EXPECT_LT(CompareNatural("", "a"), 0);
}

}  // namespace
}  // namespace msitd::names
