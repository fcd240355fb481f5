// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/pair_kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "daemon/compute/kernel/pair_reference.h"
#include "daemon/compute/pair_finish.h"
#include "gtest/gtest.h"
#include "protos/compute/kernel/kernels.h"
#include "tests/unit/protos/compute/element_patterns.h"
#include "tests/unit/protos/compute/kernel_inputs.h"

namespace msitd::compute {
namespace {

void AppendBits(const LaneSum& sum, std::vector<uint64_t>& out) {
  for (const double lane : sum.lane) {
    out.push_back(std::bit_cast<uint64_t>(lane));
  }
  out.push_back(static_cast<uint64_t>(sum.exponent));
}

std::vector<uint64_t> Bits(const PairState& state) {
  std::vector<uint64_t> out = {state.count,
                               state.cleared_count,
                               state.mismatch_count,
                               state.nan_mismatch_count,
                               state.infinity_mismatch_count,
                               static_cast<uint64_t>(state.arithmetic)};
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

class PairKernelsTest : public testing::TestWithParam<Kernels> {};

void ExpectPairBits(const Kernels& kernels, DType target_dtype,
                    DType golden_dtype, const std::vector<std::byte>& target,
                    const std::vector<std::byte>& golden, size_t count,
                    const std::string& what) {
  const Shifted t(target, count % 3);
  const Shifted g(golden, count % 5);
  PairState expected(target_dtype, golden_dtype);
  ReferencePairKernel(t.data(), g.data(), count, expected);
  PairState actual(target_dtype, golden_dtype);
  PairKernelOf(kernels.target)(t.data(), g.data(), count, actual);
  ASSERT_EQ(Bits(actual), Bits(expected)) << what << " " << count;
}

TEST_P(PairKernelsTest, PairHasTheBitsOfTheReferenceForAllDTypes) {
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

TEST_P(PairKernelsTest, PairHasTheBitsOfTheReferenceForAllPatterns) {
  for (const DType dtype :
       {DType::kFloat32, DType::kBfloat16, DType::kFloat16, DType::kFloat64,
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

// One special element among normal ones: a lane must not hide it from a check
// of the whole block, and a pass must not keep results of a refused block.
TEST_P(PairKernelsTest, PairHasTheBitsOfTheReferenceForOneSpecialElement) {
  constexpr size_t kCount = 2 * kBlockElements;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const DType dtype :
       {DType::kFloat32, DType::kBfloat16, DType::kFloat16}) {
    const auto target = MakeElements(dtype, Pattern::kNormal, kCount, 10);
    const auto golden = MakeElements(dtype, Pattern::kNormal, kCount, 11);
    for (const double special :
         {kInfinity, -kInfinity, std::nan(""), 0.0, -0.0, 6e-8, 6e4, 1e38}) {
      std::vector<std::byte> element;
      Append(dtype, special, element);
      for (size_t i = 0; i < kCount; i += 7) {
        auto changed_target = target;
        auto changed_golden = golden;
        const auto at = static_cast<ptrdiff_t>(i * element.size());
        std::copy(element.begin(), element.end(), changed_target.begin() + at);
        std::copy(element.begin(), element.end(), changed_golden.begin() + at);
        const std::string what = std::string(DTypeName(dtype)) + " " +
                                 std::to_string(special) + " at " +
                                 std::to_string(i);
        ExpectPairBits(GetParam(), dtype, dtype, changed_target, golden, kCount,
                       what);
        ExpectPairBits(GetParam(), dtype, dtype, target, changed_golden, kCount,
                       what);
        ExpectPairBits(GetParam(), dtype, dtype, changed_target, changed_golden,
                       kCount, what);
      }
    }
  }
}

TEST_P(PairKernelsTest, PairHasTheBitsOfTheReferenceForAllLengths) {
  const auto target = MakeElements(DType::kFloat32, Pattern::kNormal, 1000, 5);
  const auto golden = MakeElements(DType::kFloat32, Pattern::kNormal, 1000, 6);
  for (const size_t count : Lengths()) {
    ExpectPairBits(GetParam(), DType::kFloat32, DType::kFloat32, target, golden,
                   count, "float32");
  }
}

// With an ascending ramp, the references of the softmax are changed repeatedly.
// The steps cover the ranges of float, of double, and of integers.
TEST_P(PairKernelsTest, PairHasTheBitsOfTheReferenceWhereTheSoftmaxMoves) {
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

TEST_P(PairKernelsTest, PairDoesNotDependOnCutsAtBlockBorders) {
  const Kernels& kernels = GetParam();
  for (const DType dtype : {DType::kFloat32, DType::kInt32}) {
    const auto t = MakeElements(dtype, Pattern::kNormal, 1500, 8);
    const auto g = MakeElements(dtype, Pattern::kNormal, 1500, 9);
    PairState whole(dtype, dtype);
    PairKernelOf(kernels.target)(t.data(), g.data(), 1500, whole);
    PairState pieces(dtype, dtype);
    const size_t cut = 5 * kBlockElements;
    PairKernelOf(kernels.target)(t.data(), g.data(), cut, pieces);
    PairKernelOf(kernels.target)(t.data() + 4 * cut, g.data() + 4 * cut,
                                 1500 - cut, pieces);
    EXPECT_EQ(Bits(pieces), Bits(whole)) << DTypeName(dtype);
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, PairKernelsTest,
                         testing::ValuesIn(SupportedKernels().begin(),
                                           SupportedKernels().end()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(ChosenPairKernelTest, IsThatOfTheChosenTarget) {
  EXPECT_EQ(ChosenPairKernel(), PairKernelOf(ChosenKernels().target));
  EXPECT_EQ(PairKernelOf(kReferenceTarget), ReferencePairKernel);
}

}  // namespace
}  // namespace msitd::compute
