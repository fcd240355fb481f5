// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/msit_kernels.h"

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "protos/compute/kernel/kernels.h"
#include "tests/unit/protos/compute/element_patterns.h"
#include "tests/unit/protos/compute/kernel_inputs.h"

namespace msitd::compute {
namespace {

// If an element was not finite, only this fact is compared.
std::vector<uint64_t> Bits(const MsitSums& sums) {
  std::vector<uint64_t> out = {sums.has_non_finite};
  if (sums.has_non_finite) return out;
  for (const auto* lanes : {&sums.tt, &sums.gg, &sums.tg, &sums.noise,
                            &sums.signal, &sums.relative, &sums.absolute}) {
    for (const double x : lanes->lane) {
      out.push_back(std::bit_cast<uint64_t>(x));
    }
  }
  for (const auto* lanes : {&sums.max_relative, &sums.max_absolute}) {
    for (const float x : lanes->lane) {
      out.push_back(std::bit_cast<uint32_t>(x));
    }
  }
  return out;
}

class MsitKernelsTest : public testing::TestWithParam<Kernels> {};

TEST_P(MsitKernelsTest, SumsHaveTheBitsOfTheReference) {
  constexpr size_t kCount = 40 * kMsitLanes;
  size_t finite = 0;
  for (const Pattern target_pattern : kPatterns) {
    for (const Pattern golden_pattern : kPatterns) {
      const Shifted target(
          MakeElements(DType::kFloat32, target_pattern, kCount, 1), 3);
      const Shifted golden(
          MakeElements(DType::kFloat32, golden_pattern, kCount, 2), 1);
      MsitSums expected;
      MsitSums actual;
      for (const size_t count : {kMsitLanes, size_t{0}, kCount}) {
        MsitKernelOf(kReferenceTarget)(target.data(), golden.data(), count,
                                       expected);
        MsitKernelOf(GetParam().target)(target.data(), golden.data(), count,
                                        actual);
        ASSERT_EQ(Bits(actual), Bits(expected))
            << NameOf(target_pattern) << "/" << NameOf(golden_pattern) << " "
            << count;
      }
      finite += expected.has_non_finite ? 0 : 1;
    }
  }
  EXPECT_GT(finite, 20u);
}

INSTANTIATE_TEST_SUITE_P(Targets, MsitKernelsTest,
                         testing::ValuesIn(SupportedKernels().begin(),
                                           SupportedKernels().end()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

}  // namespace
}  // namespace msitd::compute
