// SPDX-License-Identifier: Apache-2.0
#include "client/ask/report/table/cell.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace msitd::ask {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

TEST(CellTest, FloatsAreWrittenAsPythonDoes) {
  EXPECT_EQ(PythonFloat(1), "1.0");
  EXPECT_EQ(PythonFloat(-0.0), "-0.0");
  EXPECT_EQ(PythonFloat(0.1F), "0.10000000149011612");
  EXPECT_EQ(PythonFloat(1e-5), "1e-05");
  EXPECT_EQ(PythonFloat(0.0001), "0.0001");
  EXPECT_EQ(PythonFloat(1e15), "1000000000000000.0");
  EXPECT_EQ(PythonFloat(1e16), "1e+16");
  EXPECT_EQ(PythonFloat(1.5e300), "1.5e+300");
  EXPECT_EQ(PythonFloat(kInf), "inf");
  EXPECT_EQ(PythonFloat(kNan), "nan");
}

TEST(CellTest, EachStyleHasItsNumbers) {
  EXPECT_EQ(TextOf(Real{1}), "1");
  EXPECT_EQ(TextOf(Real{-kInf}), "-inf");
  EXPECT_EQ(TextOf(Real{1, RealStyle::kPython}), "1.0");
  EXPECT_EQ(TextOf(Real{1, RealStyle::kMsprobe}), "1.0");
  EXPECT_EQ(TextOf(Real{-kInf, RealStyle::kMsprobe}), " -inf");
  EXPECT_EQ(TextOf(Real{kNan, RealStyle::kMsprobe}), "Nan");
  EXPECT_EQ(TextOf(Real{18446744073709551615.0, RealStyle::kWhole}),
            "18446744073709551616");
}

TEST(CellTest, OtherCellsAreTheirTexts) {
  EXPECT_EQ(TextOf(Cell()), "");
  EXPECT_EQ(TextOf("a,b"), "a,b");
  EXPECT_EQ(TextOf(int64_t{-7}), "-7");
  EXPECT_EQ(TextOf(Truth{true}), "true");
  EXPECT_EQ(TextOf(Truth{false, /*is_python=*/true}), "False");
}

}  // namespace
}  // namespace msitd::ask
