// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/kernels.h"

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "daemon/compute/digest.h"
#include "daemon/compute/kernel/reference.h"
#include "daemon/compute/pair_finish.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/unit/daemon/compute/element_patterns.h"

namespace msitd::compute {
namespace {

// Lengths around every border: vectors, virtual lanes, blocks.
std::vector<size_t> Lengths() {
  std::vector<size_t> out;
  for (size_t n = 0; n <= 4 * kVirtualLanes + 1; ++n) out.push_back(n);
  for (size_t blocks = 1; blocks <= 3; ++blocks) {
    for (const int rest : {-1, 0, 1, 17}) {
      out.push_back(blocks * kBlockElements + rest);
    }
  }
  out.push_back(1000);
  return out;
}

// The same bytes at another address.
class Shifted {
 public:
  Shifted(const std::vector<std::byte>& bytes, size_t shift)
      : storage_(bytes.size() + 64 + shift) {
    const auto address = reinterpret_cast<uintptr_t>(storage_.data());
    begin_ = storage_.data() + (64 - address % 64) % 64 + shift;
    if (!bytes.empty()) std::memcpy(begin_, bytes.data(), bytes.size());
  }
  const std::byte* data() const { return begin_; }

 private:
  std::vector<std::byte> storage_;
  std::byte* begin_;
};

std::vector<uint64_t> Bits(const Summary& summary) {
  std::vector<uint64_t> out(sizeof(Summary) / sizeof(uint64_t));
  std::memcpy(out.data(), &summary, sizeof(Summary));
  return out;
}

void AppendBits(const LaneSum& sum, std::vector<uint64_t>& out) {
  for (const double lane : sum.lane) {
    out.push_back(std::bit_cast<uint64_t>(lane));
  }
  out.push_back(static_cast<uint64_t>(sum.exponent));
}

std::vector<uint64_t> Bits(const PairState& state) {
  std::vector<uint64_t> out = {state.count, state.cleared_count,
                               state.mismatch_count, state.nan_mismatch_count,
                               state.infinity_mismatch_count};
  const PairMetrics metrics = ToMetrics(state);
  for (const auto& value : metrics.values) {
    out.push_back(value ? std::bit_cast<uint64_t>(*value) : ~uint64_t{0});
  }
  out.push_back(metrics.max_abs_index);
  out.push_back(std::bit_cast<uint64_t>(metrics.max_abs_target));
  out.push_back(std::bit_cast<uint64_t>(metrics.max_abs_golden));
  for (const LaneSum* sum :
       {&state.target_squares, &state.golden_squares, &state.products,
        &state.difference_squares, &state.differences, &state.ratios,
        &state.softmax.golden, &state.softmax.target,
        &state.softmax.weighted}) {
    AppendBits(*sum, out);
  }
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

// Kernels look at more than a block at once, and go back where one of its
// elements is not finite.
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

void ExpectPairBits(const Kernels& kernels, DType target_dtype,
                    DType golden_dtype, const std::vector<std::byte>& target,
                    const std::vector<std::byte>& golden, size_t count,
                    const std::string& what) {
  const Shifted t(target, count % 3);
  const Shifted g(golden, count % 5);
  PairState expected(target_dtype, golden_dtype);
  ReferencePairKernel(t.data(), g.data(), count, expected);
  PairState actual(target_dtype, golden_dtype);
  kernels.pair(t.data(), g.data(), count, actual);
  ASSERT_EQ(Bits(actual), Bits(expected)) << what << " " << count;
}

TEST_P(KernelsTest, PairHasTheBitsOfTheReferenceForAllDTypes) {
  for (const DType target_dtype : Components()) {
    for (const DType golden_dtype : Components()) {
      for (const Pattern pattern : {Pattern::kNormal, Pattern::kMixed}) {
        constexpr size_t kCount = 3 * kBlockElements + 5;
        ExpectPairBits(GetParam(), target_dtype, golden_dtype,
                       MakeElements(target_dtype, pattern, kCount, 1),
                       MakeElements(golden_dtype, pattern, kCount, 2), kCount,
                       std::string(DTypeName(target_dtype)) + "/" +
                           std::string(DTypeName(golden_dtype)) + " " +
                           NameOf(pattern));
      }
    }
  }
}

TEST_P(KernelsTest, PairHasTheBitsOfTheReferenceForAllPatterns) {
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat64,
                            DType::kInt64, DType::kFloat8E4m3fn}) {
    for (const Pattern target_pattern : kPatterns) {
      for (const Pattern golden_pattern : kPatterns) {
        const auto target = MakeElements(dtype, target_pattern, 1000, 3);
        const auto golden = MakeElements(dtype, golden_pattern, 1000, 4);
        for (const size_t count : {1, 31, 128, 129, 1000}) {
          ExpectPairBits(GetParam(), dtype, dtype, target, golden, count,
                         std::string(DTypeName(dtype)) + " " +
                             NameOf(target_pattern) + "/" +
                             NameOf(golden_pattern));
        }
      }
    }
  }
}

TEST_P(KernelsTest, PairHasTheBitsOfTheReferenceForAllLengths) {
  const auto target = MakeElements(DType::kFloat32, Pattern::kNormal, 1000, 5);
  const auto golden = MakeElements(DType::kFloat32, Pattern::kNormal, 1000, 6);
  for (const size_t count : Lengths()) {
    ExpectPairBits(GetParam(), DType::kFloat32, DType::kFloat32, target, golden,
                   count, "float32");
  }
}

// A rising ramp moves the softmax references again and again; the steps take
// it through float, through double and out of the range of integers.
TEST_P(KernelsTest, PairHasTheBitsOfTheReferenceWhereTheSoftmaxMoves) {
  for (const double step : {0.3, 3.0, 40.0, 1e5, 1e12, 1e30}) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
      std::vector<std::byte> target;
      std::vector<std::byte> golden;
      for (int i = 0; i < 1000; ++i) {
        Append(dtype, (i - 500) * step, target);
        Append(dtype, (i % 100 - i / 200) * step, golden);
      }
      ExpectPairBits(GetParam(), dtype, dtype, target, golden, 1000, "ramp");
      ExpectPairBits(GetParam(), dtype, dtype, golden, target, 1000, "ramp");
    }
  }
}

TEST_P(KernelsTest, PairDoesNotDependOnCutsAtBlockBorders) {
  const Kernels& kernels = GetParam();
  for (const DType dtype : {DType::kFloat32, DType::kInt32}) {
    const auto t = MakeElements(dtype, Pattern::kNormal, 1500, 8);
    const auto g = MakeElements(dtype, Pattern::kNormal, 1500, 9);
    PairState whole(dtype, dtype);
    kernels.pair(t.data(), g.data(), 1500, whole);
    PairState pieces(dtype, dtype);
    const size_t cut = 5 * kBlockElements;
    kernels.pair(t.data(), g.data(), cut, pieces);
    kernels.pair(t.data() + 4 * cut, g.data() + 4 * cut, 1500 - cut, pieces);
    EXPECT_EQ(Bits(pieces), Bits(whole)) << DTypeName(dtype);
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

// Each choice needs a process of its own.
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
