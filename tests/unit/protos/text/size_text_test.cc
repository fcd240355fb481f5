// SPDX-License-Identifier: Apache-2.0
#include "protos/text/size_text.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace msitd::text {
namespace {

TEST(ParseSizeTest, UnitsAreOf1024InAnySpelling) {
  EXPECT_EQ(*ParseSize("0"), 0);
  EXPECT_EQ(*ParseSize("4096"), 4096);
  EXPECT_EQ(*ParseSize("7B"), 7);
  for (const char* text : {"2k", "2K", "2kb", "2KB", "2KiB", "2 KiB"}) {
    EXPECT_EQ(*ParseSize(text), 2048) << text;
  }
  EXPECT_EQ(*ParseSize("200GB"), int64_t{200} << 30);
  EXPECT_EQ(*ParseSize("1.5GiB"), int64_t{3} << 29);
  EXPECT_EQ(*ParseSize("9223372036854775807"), INT64_MAX);
}

TEST(ParseSizeTest, NonsenseIsRefused) {
  for (const char* text :
       {"", "-1", "-0", "x", "GB", "1X", "1GBs", "1e3", "nan", "inf", "1 2",
        "9223372036854775808", "8EiB", "8388608TiB", "99999999999999999999"}) {
    EXPECT_FALSE(ParseSize(text).ok()) << text;
  }
}

}  // namespace
}  // namespace msitd::text
