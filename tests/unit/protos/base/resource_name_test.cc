// SPDX-License-Identifier: Apache-2.0
#include "protos/base/resource_name.h"

#include <random>
#include <string>

#include "gtest/gtest.h"
#include "protos/base/limits.h"

namespace msitd {
namespace {

TensorKey SampleKey() {
  return {.run = "golden",
          .rank = 3,
          .device = "npu:3",
          .token = 7,
          .op = "encoder.layer.3.intermediate.dense",
          .call = 1,
          .io = Io::kOutput,
          .index = "0"};
}

constexpr std::string_view kSampleName =
    "runs/golden/ranks/3/devices/npu:3/tokens/7/ops/"
    "encoder.layer.3.intermediate.dense/calls/1/output/0";

std::string WithReplaced(std::string_view from, std::string_view to) {
  std::string out(kSampleName);
  const size_t at = out.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return out.replace(at, from.size(), to);
}

TEST(ResourceNameTest, HasThePublishedForm) {
  EXPECT_EQ(FormatTensorName(SampleKey()), kSampleName);
  EXPECT_EQ(ParseTensorName(kSampleName), SampleKey());
}

TEST(ResourceNameTest, EscapesSlashesPercentSignsBlanksAndControls) {
  TensorKey key = SampleKey();
  key.op = "a/b c%d\te\x7f";
  key.index = "";
  const std::string name = FormatTensorName(key);
  EXPECT_NE(name.find("/ops/a%2Fb%20c%25d%09e%7F/calls/"), std::string::npos)
      << name;
  EXPECT_EQ(ParseTensorName(name), key);
}

TEST(ResourceNameTest, RoundTripsEveryByteInEveryComponent) {
  for (int byte = 0; byte < 256; ++byte) {
    TensorKey key = SampleKey();
    const std::string text{'x', static_cast<char>(byte), 'y'};
    key.run = key.device = key.op = key.index = text;
    ASSERT_EQ(ParseTensorName(FormatTensorName(key)), key) << byte;
  }
}

TEST(ResourceNameTest, RoundTripsRandomKeys) {
  std::mt19937_64 random(11);
  const auto text = [&random] {
    std::string out(random() % 40, '\0');
    for (char& c : out) c = static_cast<char>(random());
    return out;
  };
  for (int i = 0; i < 5000; ++i) {
    const TensorKey key = {
        .run = text(),
        .rank = static_cast<int32_t>(random() % (kRankMax + 1)),
        .device = text(),
        .token = static_cast<int64_t>(random() % (kTokenMax + 1)),
        .op = text(),
        .call = static_cast<int32_t>(random() % (kCallMax + 1)),
        .io = static_cast<Io>(1 + random() % (kIoCount - 1)),
        .index = text()};
    const std::string name = FormatTensorName(key);
    ASSERT_EQ(ParseTensorName(name), key) << name;
    for (const char c : name) {
      const auto byte = static_cast<unsigned char>(c);
      ASSERT_TRUE(byte > 0x20 && byte != 0x7f) << name;
    }
  }
}

TEST(ResourceNameTest, AcceptsTheLargestNumbersAndRefusesOneMore) {
  TensorKey key = SampleKey();
  key.rank = kRankMax;
  key.token = kTokenMax;
  key.call = kCallMax;
  EXPECT_EQ(ParseTensorName(FormatTensorName(key)), key);
  EXPECT_FALSE(ParseTensorName(WithReplaced(
      "ranks/3", "ranks/" + std::to_string(int64_t{kRankMax} + 1))));
  EXPECT_FALSE(ParseTensorName(
      WithReplaced("tokens/7", "tokens/" + std::to_string(kTokenMax + 1))));
  EXPECT_FALSE(ParseTensorName(WithReplaced(
      "calls/1", "calls/" + std::to_string(int64_t{kCallMax} + 1))));
}

TEST(ResourceNameTest, RefusesWhatIsNotOfThatForm) {
  const std::string bad[] = {
      "",
      "runs",
      "/" + std::string(kSampleName),
      std::string(kSampleName) + "/",
      std::string(kSampleName) + "/0",
      WithReplaced("runs/", "run/"),
      WithReplaced("/ranks/", "/rank/"),
      WithReplaced("/devices/", "/device/"),
      WithReplaced("/tokens/", "/token/"),
      WithReplaced("/ops/", "/op/"),
      WithReplaced("/calls/", "/call/"),
      WithReplaced("/output/", "/Output/"),
      WithReplaced("/output/", "/unspecified/"),
      WithReplaced("ranks/3", "ranks/"),
      WithReplaced("ranks/3", "ranks/-1"),
      WithReplaced("ranks/3", "ranks/-0"),
      WithReplaced("ranks/3", "ranks/03"),
      WithReplaced("ranks/3", "ranks/+3"),
      WithReplaced("ranks/3", "ranks/3x"),
      WithReplaced("ranks/3", "ranks/ 3"),
      WithReplaced("tokens/7", "tokens/99999999999999999999"),
      WithReplaced("golden", "g%"),
      WithReplaced("golden", "g%4"),
      WithReplaced("golden", "g%zz"),
      WithReplaced("golden", "g%4z"),
      WithReplaced("golden", "g%-1"),
  };
  for (const std::string& name : bad) {
    EXPECT_FALSE(ParseTensorName(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace msitd
