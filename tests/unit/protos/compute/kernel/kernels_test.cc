// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/kernel/kernels.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "protos/compute/digest.h"
#include "protos/compute/kernel/reference.h"
#include "tests/unit/protos/compute/element_patterns.h"
#include "tests/unit/protos/compute/kernel_inputs.h"

namespace msitd::compute {
namespace {

std::vector<uint64_t> Bits(const Summary& summary) {
  std::vector<uint64_t> out(sizeof(Summary) / sizeof(uint64_t));
  std::memcpy(out.data(), &summary, sizeof(Summary));
  return out;
}

class KernelsTest : public testing::TestWithParam<Kernels> {};

TEST_P(KernelsTest, SummaryHasTheBitsOfTheReference) {
  const Kernels& kernels = GetParam();
  for (const DType dtype : Components()) {
    for (const Pattern pattern : kPatterns) {
      const auto all = MakeElements(dtype, pattern, 1000, 7);
      for (const size_t count : Lengths()) {
        const size_t shift = count % 3;
        const std::vector<std::byte> bytes(
            all.end() - count * ElementBytes(dtype), all.end());
        const Shifted input(bytes, shift);
        SummaryState expected;
        ReferenceSummaryKernel(dtype, input.data(), count, expected);
        SummaryState actual;
        kernels.summary(dtype, input.data(), count, actual);
        ASSERT_EQ(Bits(ToSummary(actual)), Bits(ToSummary(expected)))
            << DTypeName(dtype) << " " << NameOf(pattern) << " " << count;
      }
    }
  }
}

// Kernels process more than one block at once, and repeat blocks with elements
// that are not finite.
TEST_P(KernelsTest, SummaryHasTheBitsOfTheReferenceForLongInputs) {
  constexpr size_t kCount = 5001;
  for (const DType dtype : Components()) {
    for (const Pattern pattern : kPatterns) {
      auto bytes = MakeElements(dtype, pattern, kCount, 13);
      if (IsFloatingPoint(dtype)) {
        std::memset(bytes.data() + 4500 * ElementBytes(dtype), 0xff,
                    ElementBytes(dtype));
      }
      const Shifted input(bytes, 1);
      SummaryState expected;
      ReferenceSummaryKernel(dtype, input.data(), kCount, expected);
      SummaryState actual;
      GetParam().summary(dtype, input.data(), kCount, actual);
      ASSERT_EQ(Bits(ToSummary(actual)), Bits(ToSummary(expected)))
          << DTypeName(dtype) << " " << NameOf(pattern);
    }
  }
}

TEST_P(KernelsTest, SummaryDoesNotDependOnCutsAtBlockBorders) {
  const Kernels& kernels = GetParam();
  for (const DType dtype : Components()) {
    for (const Pattern pattern : kPatterns) {
      const auto bytes = MakeElements(dtype, pattern, 1500, 11);
      SummaryState whole;
      kernels.summary(dtype, bytes.data(), 1500, whole);
      SummaryState pieces;
      const size_t block = kBlockElements * ElementBytes(dtype);
      kernels.summary(dtype, bytes.data(), kBlockElements, pieces);
      kernels.summary(dtype, bytes.data() + block, 3 * kBlockElements, pieces);
      kernels.summary(dtype, bytes.data() + 4 * block,
                      1500 - 4 * kBlockElements, pieces);
      ASSERT_EQ(Bits(ToSummary(pieces)), Bits(ToSummary(whole)))
          << DTypeName(dtype) << " " << NameOf(pattern);
    }
  }
}

TEST_P(KernelsTest, EveryElementOfSmallDTypesIsReadAsItsDefinitionSays) {
  for (const DType dtype : Components()) {
    if (ElementBytes(dtype) > 2) continue;
    const size_t count = size_t{1} << (8 * ElementBytes(dtype));
    std::vector<std::byte> block(kBlockElements * ElementBytes(dtype));
    for (size_t bits = 0; bits < count; ++bits) {
      for (size_t i = 0; i < kBlockElements; ++i) {
        std::memcpy(block.data() + i * ElementBytes(dtype), &bits,
                    ElementBytes(dtype));
      }
      SummaryState state;
      GetParam().summary(dtype, block.data(), kBlockElements, state);
      const double expected = ReferenceElement(dtype, block.data(), 0);
      if (expected != expected) {
        ASSERT_EQ(state.nan_count, kBlockElements) << bits;
      } else {
        ASSERT_EQ(state.min, expected) << DTypeName(dtype) << " " << bits;
        ASSERT_EQ(state.max, expected) << DTypeName(dtype) << " " << bits;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, KernelsTest,
                         testing::ValuesIn(SupportedKernels().begin(),
                                           SupportedKernels().end()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(SupportedKernelsTest, EndWithTheScalarTargetAndTheReference) {
  const auto all = SupportedKernels();
  ASSERT_GE(all.size(), 2U);
  EXPECT_EQ(all[all.size() - 2].name, "SCALAR");
  EXPECT_EQ(all.back().name, "REFERENCE");
}

[[noreturn]] void PrintTargetWith(const char* forced) {
  if (forced == nullptr) {
    unsetenv("MSITD_FORCE_TARGET");
  } else {
    setenv("MSITD_FORCE_TARGET", forced, 1);
  }
  std::fprintf(stderr, "target=%s again=%s\n",
               std::string(SimdTargetName()).c_str(),
               std::string(SimdTargetName()).c_str());
  std::exit(0);
}

// Each target must be selected in a separate process.
class ForcedTargetDeathTest : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  std::string best_ = std::string(SupportedKernels().front().name);
};

TEST_F(ForcedTargetDeathTest, IsTheBestOneIfNotForced) {
  EXPECT_EXIT(PrintTargetWith(nullptr), testing::ExitedWithCode(0),
              "^target=" + best_ + " ");
  EXPECT_EXIT(PrintTargetWith(""), testing::ExitedWithCode(0),
              "^target=" + best_ + " ");
}

TEST_F(ForcedTargetDeathTest, IsFoundByNameWhateverTheCase) {
  EXPECT_EXIT(PrintTargetWith("scalar"), testing::ExitedWithCode(0),
              "^target=SCALAR again=SCALAR");
  EXPECT_EXIT(PrintTargetWith("Reference"), testing::ExitedWithCode(0),
              "^target=REFERENCE ");
}

TEST_F(ForcedTargetDeathTest, IsReportedOnceAndIgnoredIfUnknown) {
  EXPECT_EXIT(
      PrintTargetWith("mmx"), testing::ExitedWithCode(0),
      testing::MatchesRegex("MSITD_FORCE_TARGET=mmx ignored: [^\n]*REFERENCE\n"
                            "target=" +
                            best_ + " again=" + best_ + "\n"));
}

}  // namespace
}  // namespace msitd::compute
