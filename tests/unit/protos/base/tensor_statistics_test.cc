// SPDX-License-Identifier: Apache-2.0
#include "protos/base/tensor_statistics.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace msitd {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(TensorStatisticsTest, TextsAreKeptAsTheyWereWritten) {
  const auto parsed = ParseTensorStatistics(
      " {\"max\":9223372036854775807,\t\"min\" : -1.50e+3,\n"
      "\"mean\": \"nan\", \"max_2\": true, \"crc32\": \"0badcafe\", "
      "\"md5\": \"\"} ");
  ASSERT_TRUE(parsed.has_value());
  EXPECT_THAT(*parsed,
              ElementsAre(TensorStatistic{"max", "9223372036854775807"},
                          TensorStatistic{"min", "-1.50e+3"},
                          TensorStatistic{"mean", "nan", true},
                          TensorStatistic{"max_2", "true"},
                          TensorStatistic{"crc32", "0badcafe", true},
                          TensorStatistic{"md5", "", true}));
  const std::string printed = PrintTensorStatistics(*parsed);
  EXPECT_EQ(printed,
            "{\"max\": 9223372036854775807, \"min\": -1.50e+3, \"mean\": "
            "\"nan\", \"max_2\": true, \"crc32\": \"0badcafe\", \"md5\": "
            "\"\"}");
  EXPECT_EQ(ParseTensorStatistics(printed), parsed);
}

TEST(TensorStatisticsTest, NothingIsKnown) {
  ASSERT_TRUE(ParseTensorStatistics("{ }").has_value());
  EXPECT_THAT(*ParseTensorStatistics("{}"), IsEmpty());
  EXPECT_EQ(PrintTensorStatistics({}), "{}");
}

TEST(TensorStatisticsTest, OtherTextsAreRefused) {
  for (const char* text : {"",
                           " ",
                           "{",
                           "}",
                           "{}x",
                           "{}{}",
                           "[]",
                           "null",
                           "1",
                           "{,}",
                           "{\"max\"}",
                           "{\"max\":}",
                           "{\"max\": 1,}",
                           "{\"max\": 1 \"min\": 2}",
                           "{\"max\": 1, \"max\": 1}",
                           "{max: 1}",
                           "{'max': 1}",
                           "{\"Max\": 1}",
                           "{\"\": 1}",
                           "{\"_x\": 1}",
                           "{\"a-b\": 1}",
                           "{\"1a\": 1}",
                           "{\"max\": nan}",
                           "{\"max\": NaN}",
                           "{\"max\": null}",
                           "{\"max\": Infinity}",
                           "{\"max\": +1}",
                           "{\"max\": 01}",
                           "{\"max\": 1.}",
                           "{\"max\": .5}",
                           "{\"max\": 1e}",
                           "{\"max\": 1e+}",
                           "{\"max\": 0x1}",
                           "{\"max\": -}",
                           "{\"max\": {}}",
                           "{\"max\": [1]}",
                           "{\"max\": \"a\\\"b\"}",
                           "{\"max\": \"\xc3\xa4\"}",
                           "{\"max\": \"a\nb\"}",
                           "{\"max\": \"unended}",
                           "{\"max\": truee}"}) {
    EXPECT_FALSE(ParseTensorStatistics(text).has_value()) << text;
  }
}

TEST(TensorStatisticsTest, LengthsAreBounded) {
  const auto with = [](const std::string& name, const std::string& value) {
    return "{\"" + name + "\": " + value + "}";
  };
  const std::string name(kStatisticNameBytesMax, 'a');
  const std::string digits(kStatisticTextBytesMax, '1');
  EXPECT_TRUE(ParseTensorStatistics(with(name, digits)).has_value());
  EXPECT_TRUE(
      ParseTensorStatistics(with(name, '"' + digits + '"')).has_value());
  EXPECT_FALSE(ParseTensorStatistics(with(name + 'a', "1")).has_value());
  EXPECT_FALSE(ParseTensorStatistics(with("a", digits + '1')).has_value());
  EXPECT_FALSE(
      ParseTensorStatistics(with("a", '"' + digits + "1\"")).has_value());
  std::string many = "{\"a\": 1";
  for (size_t i = 1; i < kTensorStatisticsMax; ++i) {
    many += ", \"a" + std::to_string(i) + "\": 1";
  }
  EXPECT_TRUE(ParseTensorStatistics(many + "}").has_value());
  EXPECT_FALSE(ParseTensorStatistics(many + ", \"b\": 1}").has_value());
}

TEST(TensorStatisticsTest, NumbersAreFound) {
  const auto number = [](std::string_view text, bool is_string = false) {
    return NumberOf({"max", text, is_string});
  };
  EXPECT_EQ(number("-1.5e3"), -1500);
  EXPECT_EQ(number("true"), 1);
  EXPECT_EQ(number("false"), 0);
  EXPECT_EQ(number("inf", true), std::numeric_limits<double>::infinity());
  EXPECT_EQ(number("-inf", true), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(number("nan", true).value_or(0)));
  EXPECT_FALSE(number("0badcafe", true).has_value());
  EXPECT_FALSE(number("1", true).has_value());
  EXPECT_FALSE(number("1e999").has_value());
}

TEST(TensorStatisticsTest, ChecksumsAreOfBytes) {
  for (const std::string_view name : kKnownStatistics) {
    EXPECT_EQ(IsChecksum(name), name == "crc32" || name == "xor") << name;
  }
}

}  // namespace
}  // namespace msitd
