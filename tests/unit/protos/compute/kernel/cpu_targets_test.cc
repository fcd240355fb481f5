// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/kernel/cpu_targets.h"

#include "gtest/gtest.h"
#include "hwy/targets.h"

namespace msitd::compute {
namespace {

TEST(CpuTargetsTest, AreThoseOfHighway) {
  constexpr int64_t kOurs =
      HWY_SSSE3 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3 | HWY_NEON;
  EXPECT_EQ(CpuTargets(), hwy::SupportedTargets() & kOurs);
}

}  // namespace
}  // namespace msitd::compute
