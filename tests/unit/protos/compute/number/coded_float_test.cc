// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/number/coded_float.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <set>
#include <utility>

#include "protos/base/dtype.h"
#include "protos/compute/kernel/reference.h"

namespace msitd::compute {
namespace {

std::set<float> PositiveValues(const CodedValues& values, int bits) {
  std::set<float> out;
  for (int code = 0; code < 1 << (bits - 1); ++code) {
    const float value = values[static_cast<size_t>(code)];
    if (std::isfinite(value)) out.insert(value);
  }
  return out;
}

// The values that OCP Microscaling 1.0 defines for FP4.
TEST(CodedFloatTest, Float4E2m1HasTheValuesOfItsStandard) {
  EXPECT_EQ(PositiveValues(kFloat4E2m1fnValues, 4),
            (std::set<float>{0, 0.5, 1, 1.5, 2, 3, 4, 6}));
}

TEST(CodedFloatTest, Float4E1m2GoesInEvenSteps) {
  EXPECT_EQ(PositiveValues(kFloat4E1m2Values, 4),
            (std::set<float>{0, 0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75}));
}

TEST(CodedFloatTest, Float6HasTheBoundsOfItsStandard) {
  const auto e2m3 = PositiveValues(kFloat6E2m3fnValues, 6);
  EXPECT_EQ(*e2m3.rbegin(), 7.5F);
  EXPECT_EQ(*std::next(e2m3.begin()), 0.125F);
  const auto e3m2 = PositiveValues(kFloat6E3m2fnValues, 6);
  EXPECT_EQ(*e3m2.rbegin(), 28.0F);
  EXPECT_EQ(*std::next(e3m2.begin()), 0.0625F);
}

TEST(CodedFloatTest, ScalesArePowersOfTwo) {
  EXPECT_EQ(kFloat8E8m0fnuValues[127], 1.0F);
  EXPECT_EQ(kFloat8E8m0fnuValues[0], 0x1p-127F);
  EXPECT_EQ(kFloat8E8m0fnuValues[254], 0x1p127F);
  EXPECT_TRUE(std::isnan(kFloat8E8m0fnuValues[255]));
}

// The bounds in arXiv:2409.16626.
TEST(CodedFloatTest, Hifloat8HasTheBoundsOfItsPaper) {
  const auto values = PositiveValues(kHifloat8Values, 8);
  EXPECT_EQ(*values.rbegin(), 0x1p15F);
  EXPECT_EQ(*std::next(values.begin()), 0x1p-22F);
  EXPECT_EQ(kHifloat8Values[0x08], 1.0F);
  EXPECT_TRUE(std::isnan(kHifloat8Values[0x80]));
  EXPECT_EQ(kHifloat8Values[0x6f], HUGE_VALF);
  EXPECT_EQ(kHifloat8Values[0xef], -HUGE_VALF);
  // Every pattern except zero, NaN and infinity is a distinct number.
  EXPECT_EQ(values.size(), 127u);
}

TEST(CodedFloatTest, EveryByteIsWhatTheReferenceReads) {
  const std::pair<DType, const CodedValues*> tables[] = {
      {DType::kFloat4E2m1fn, &kFloat4E2m1fnValues},
      {DType::kFloat4E1m2, &kFloat4E1m2Values},
      {DType::kFloat6E2m3fn, &kFloat6E2m3fnValues},
      {DType::kFloat6E3m2fn, &kFloat6E3m2fnValues},
      {DType::kHifloat8, &kHifloat8Values},
      {DType::kFloat8E8m0fnu, &kFloat8E8m0fnuValues},
  };
  for (const auto& [dtype, values] : tables) {
    for (int code = 0; code < 256; ++code) {
      const auto byte = static_cast<std::byte>(code);
      const double expected = ReferenceElement(dtype, &byte, 0);
      const double value = double{(*values)[static_cast<size_t>(code)]};
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(value)) << DTypeName(dtype) << " " << code;
      } else {
        EXPECT_EQ(value, expected) << DTypeName(dtype) << " " << code;
      }
    }
  }
}

}  // namespace
}  // namespace msitd::compute
