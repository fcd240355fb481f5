// SPDX-License-Identifier: Apache-2.0
#include "protos/base/rounding.h"

#include <gtest/gtest.h>

#include <cmath>

namespace msitd {
namespace {

// Values from torch: torch.tensor(x, dtype=torch.float64).to(dtype).item().
TEST(RoundToTest, ValuesAreThoseOfTorch) {
  EXPECT_EQ(RoundTo(DType::kFloat16, 0.1), 0.0999755859375);
  EXPECT_EQ(RoundTo(DType::kFloat16, 2.2360679774997896), 2.236328125);
  EXPECT_EQ(RoundTo(DType::kFloat16, 65519.99), 65504);
  EXPECT_EQ(RoundTo(DType::kFloat16, -65520), -HUGE_VAL);
  EXPECT_EQ(RoundTo(DType::kFloat16, 1e-7), 0x1p-23);
  EXPECT_EQ(RoundTo(DType::kFloat16, 2e-8), 0);
  EXPECT_EQ(RoundTo(DType::kBfloat16, 2.2360679774997896), 2.234375);
  EXPECT_EQ(RoundTo(DType::kBfloat16, 3.4e38), HUGE_VAL);
  EXPECT_EQ(RoundTo(DType::kFloat32, 3.7416573867739413), 3.7416574954986572);
  EXPECT_EQ(RoundTo(DType::kFloat64, 0.1), 0.1);
  EXPECT_TRUE(std::isnan(RoundTo(DType::kFloat16, std::nan(""))));
  EXPECT_EQ(RoundTo(DType::kFloat16, HUGE_VAL), HUGE_VAL);
}

}  // namespace
}  // namespace msitd
