// SPDX-License-Identifier: Apache-2.0
#include "client/web/row_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace msitd::web {
namespace {

TEST(RowJsonTest, HasTheTextsOfTheRow) {
  v1::ComparisonRow row;
  row.set_row(7);
  row.set_op("layers.0.mlp");
  row.set_io(v1::IO_OUTPUT);
  row.set_index("0");
  row.set_verdict(v1::FAIL);
  row.set_origin(v1::PASSED_ON);
  row.mutable_golden()->set_dtype(v1::D_TYPE_FLOAT32);
  row.mutable_target()->set_dtype(v1::D_TYPE_BFLOAT16);
  row.mutable_target()->set_nan_count(1);
  auto* metric = row.add_metrics();
  metric->set_metric("nl2");
  metric->set_value(0.25);
  metric = row.add_metrics();
  metric->set_metric("kl");
  metric->set_value(std::numeric_limits<double>::infinity());
  const auto json =
      nlohmann::json::parse(RowJson(row, Bounds(v1::Comparison(), {})));
  EXPECT_EQ(json["row"], 7);
  EXPECT_EQ(json["io"], "output");
  EXPECT_EQ(json["verdict"], "fail");
  EXPECT_EQ(json["origin"], "passed-on");
  EXPECT_EQ(json["dtype"], "float32/bfloat16");
  EXPECT_EQ(json["non_finite"], 1);
  EXPECT_EQ(json["metrics"]["nl2"], 0.25);
  EXPECT_EQ(json["metrics"]["kl"], "inf");
  EXPECT_FALSE(json.contains("share"));
}

TEST(RowJsonTest, NumbersAreJson) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(NumberJson(0.1), "0.1");
  EXPECT_EQ(NumberJson(1.0 / 3, 3), "0.333");
  EXPECT_EQ(NumberJson(1234567891), "1234567891");
  EXPECT_EQ(NumberJson(1 + 0x1p-23, 9), "1.00000012");
  EXPECT_EQ(NumberJson(kInfinity), "\"inf\"");
  EXPECT_EQ(NumberJson(-kInfinity, 6), "\"-inf\"");
  EXPECT_EQ(NumberJson(std::numeric_limits<double>::quiet_NaN()), "\"nan\"");
  for (const double value : {1e300, -1e-300, 1e22, 0.0}) {
    EXPECT_EQ(nlohmann::json::parse(NumberJson(value)), value);
  }
}

TEST(RowJsonTest, ForeignTextIsDataOnOneLine) {
  v1::ComparisonRow row;
  const std::string op = "<img src=x onerror=alert(1)>\"\\\n\xff\u2028";
  row.set_op(op);
  const std::string text = RowJson(row, Bounds(v1::Comparison(), {}));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  const auto json = nlohmann::json::parse(text);
  // Bytes that are not UTF-8 are replaced.
  EXPECT_EQ(json["op"], "<img src=x onerror=alert(1)>\"\\\n\xef\xbf\xbd\u2028");
}

}  // namespace
}  // namespace msitd::web
