// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/json/numbers.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protos/base/digits.h"

namespace msitd::trees {
namespace {

TEST(NumbersTest, OnlyDigitsAreANumber) {
  EXPECT_EQ(ParseNumber("0"), 0);
  EXPECT_EQ(ParseNumber("007"), 7);
  EXPECT_EQ(ParseNumber("9223372036854775807"), INT64_MAX);
  for (const char* text :
       {"", "-1", "+1", " 1", "1 ", "0x1", "1.0", "9223372036854775808"}) {
    EXPECT_EQ(ParseNumber(text), std::nullopt) << text;
  }
  EXPECT_TRUE(IsDigits("20240125031118787351"));
  EXPECT_FALSE(IsDigits(""));
}

TEST(NumbersTest, NaturalOrderIsThatOfNumbers) {
  const std::vector<std::string> sorted = {
      "",      "0",    "00",   "1",  "1.0",  "1.1",
      "1.2.3", "1.10", "2",    "10", "10.1", "20240125031118787351",
      "a",     "a.2",  "a.10", "b"};
  for (size_t i = 0; i < sorted.size(); ++i) {
    for (size_t k = 0; k < sorted.size(); ++k) {
      EXPECT_EQ(NaturalLess(sorted[i], sorted[k]), i < k)
          << sorted[i] << " " << sorted[k];
    }
  }
}

}  // namespace
}  // namespace msitd::trees
