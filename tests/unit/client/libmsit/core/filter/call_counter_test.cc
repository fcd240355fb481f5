// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/filter/call_counter.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>

namespace msitd::libmsit {
namespace {

TEST(CallCounterTest, NumbersEachNameWithinEachToken) {
  CallCounter counter;
  EXPECT_EQ(counter.Next(0, "a"), 0);
  EXPECT_EQ(counter.Next(0, "a"), 1);
  EXPECT_EQ(counter.Next(0, "b"), 0);
  EXPECT_EQ(counter.Next(1, "a"), 0);
  EXPECT_EQ(counter.Next(0, "a"), 2);
}

TEST(CallCounterTest, ForgetsTheLowestTokenWhenFull) {
  CallCounter counter(/*names_max=*/3);
  EXPECT_EQ(counter.Next(5, "a"), 0);
  EXPECT_EQ(counter.Next(6, "a"), 0);
  EXPECT_EQ(counter.Next(7, "a"), 0);
  EXPECT_EQ(counter.Next(8, "a"), 0);
  EXPECT_EQ(counter.Next(7, "a"), 1);
  EXPECT_EQ(counter.Next(8, "a"), 1);
  EXPECT_EQ(counter.Next(9, "a"), 0);
  EXPECT_EQ(counter.Next(6, "a"), 0) << "6 was forgotten";
}

TEST(CallCounterTest, CountsAsOneMapOfTokensAndNamesDoes) {
  constexpr size_t kNamesMax = 40;
  std::mt19937 random(7);
  CallCounter counter(kNamesMax);
  std::map<int64_t, std::map<std::string, int32_t>> expected;
  size_t count = 0;
  for (int i = 0; i < 20000; ++i) {
    const int64_t token = i / 500 + static_cast<int64_t>(random() % 4);
    // Some names are of one token only.
    const std::string name =
        std::to_string(random() % 12) +
        (random() % 8 == 0 ? "." + std::to_string(token) : "");
    auto& calls = expected[token];
    const bool is_new = !calls.contains(name);
    ASSERT_EQ(counter.Next(token, name), calls[name]++);
    count += is_new ? 1 : 0;
    while (count > kNamesMax && expected.size() > 1) {
      count -= expected.begin()->second.size();
      expected.erase(expected.begin());
    }
  }
}

TEST(CallCounterTest, RefusesMoreNamesInOneTokenThanItHolds) {
  CallCounter counter(/*names_max=*/2);
  EXPECT_TRUE(counter.Next(0, "a").has_value());
  EXPECT_TRUE(counter.Next(0, "b").has_value());
  EXPECT_FALSE(counter.Next(0, "c").has_value());
  EXPECT_EQ(counter.Next(0, "b"), 1);
}

}  // namespace
}  // namespace msitd::libmsit
