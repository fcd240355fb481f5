// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/scalar_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace msitd::fill {
namespace {

template <typename T>
T ValueOf(const Scalar& scalar) {
  T value;
  std::memcpy(&value, scalar.bytes.data(), sizeof(value));
  return value;
}

TEST(ScalarTextTest, BoolsAreOfPythonOrJson) {
  for (const char* text : {"True", "true"}) {
    const auto scalar = ParseScalar(text);
    ASSERT_TRUE(scalar.has_value()) << text;
    EXPECT_EQ(scalar->dtype, DType::kBool);
    EXPECT_EQ(ValueOf<uint8_t>(*scalar), 1);
  }
  ASSERT_TRUE(ParseScalar("False").has_value());
  EXPECT_EQ(ValueOf<uint8_t>(*ParseScalar("False")), 0);
}

TEST(ScalarTextTest, IntegersKeepAllTheirBits) {
  const auto lowest = ParseScalar("-9223372036854775808");
  ASSERT_TRUE(lowest.has_value());
  EXPECT_EQ(lowest->dtype, DType::kInt64);
  EXPECT_EQ(ValueOf<int64_t>(*lowest), std::numeric_limits<int64_t>::min());
  EXPECT_FALSE(ParseScalar("9223372036854775808").has_value());
}

TEST(ScalarTextTest, FloatsMayBeNoNumbers) {
  for (const auto& [text, value] :
       {std::pair("1e-05", 1e-5), std::pair("-0.0", -0.0),
        std::pair("Infinity", HUGE_VAL), std::pair("-inf", -HUGE_VAL)}) {
    const auto scalar = ParseScalar(text);
    ASSERT_TRUE(scalar.has_value()) << text;
    EXPECT_EQ(scalar->dtype, DType::kFloat64);
    EXPECT_EQ(ValueOf<double>(*scalar), value);
  }
  EXPECT_TRUE(std::isnan(ValueOf<double>(*ParseScalar("NaN"))));
}

TEST(ScalarTextTest, ComplexNumbersHaveTwoParts) {
  using Parts = std::array<double, 2>;
  const auto both = ParseScalar("(1.5-2j)");
  ASSERT_TRUE(both.has_value());
  EXPECT_EQ(both->dtype, DType::kComplex128);
  EXPECT_EQ(ValueOf<Parts>(*both), (Parts{1.5, -2}));
  EXPECT_EQ(ValueOf<Parts>(*ParseScalar("3j")), (Parts{0, 3}));
  EXPECT_EQ(ValueOf<Parts>(*ParseScalar("(-1e-3+infj)")),
            (Parts{-1e-3, HUGE_VAL}));
}

TEST(ScalarTextTest, OtherTextsAreNoNumbers) {
  for (const char* text : {"", "j", "()", "(1+2)", "1 ", "0x10", "1+-2j", "+-1",
                           "--1", "1.5.2", "True1", "1j2", "(1+2j"}) {
    EXPECT_FALSE(ParseScalar(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace msitd::fill
