// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/row_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "daemon/compute/kernel/pair_reference.h"
#include "daemon/compute/kernel/row_reference.h"
#include "protos/compute/kernel/kernels.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

constexpr size_t kCut = 4096;

template <typename T>
void AppendBitsOf(const LineVector<T>& sums, std::vector<uint64_t>& out) {
  for (const T sum : sums) {
    out.push_back(std::bit_cast<uint64_t>(static_cast<double>(sum)));
  }
}

std::vector<uint64_t> Bits(RowState& state) {
  state.FlushFloats();
  std::vector<uint64_t> out = {state.at,
                               static_cast<uint64_t>(state.difference_exponent),
                               static_cast<uint64_t>(state.golden_exponent)};
  AppendBitsOf(state.rows.difference, out);
  AppendBitsOf(state.rows.golden, out);
  AppendBitsOf(state.channels.difference, out);
  AppendBitsOf(state.channels.golden, out);
  return out;
}

struct Elements {
  DType target_dtype;
  DType golden_dtype;
  std::vector<std::byte> target;
  std::vector<std::byte> golden;
  size_t count;
};

// Returns the sums of the rows. `cuts` returns the number of elements of each
// call.
template <typename Cuts>
std::vector<uint64_t> Sum(RowKernel kernel, const Elements& elements,
                          uint64_t row_elements, Cuts cuts) {
  const uint64_t channels = row_elements <= kRowChunk * 8 ? row_elements : 0;
  RowState state(elements.target_dtype, elements.golden_dtype, row_elements,
                 elements.count / row_elements, channels);
  PairState pair(elements.target_dtype, elements.golden_dtype);
  size_t at = 0;
  while (at < elements.count) {
    size_t rest = std::min<size_t>(cuts(), elements.count - at);
    for (; rest > 0;) {
      const size_t now = std::min(rest, kCut);
      const std::byte* const t =
          elements.target.data() + at * ElementBytes(state.target);
      const std::byte* const g =
          elements.golden.data() + at * ElementBytes(state.golden);
      pair.arithmetic = Arithmetic::kFloat;
      ReferencePairKernel(t, g, now, pair);
      AddRows(kernel, t, g, now, pair.arithmetic, state);
      at += now;
      rest -= now;
    }
  }
  return Bits(state);
}

Elements Make(DType target, DType golden, Pattern pattern, size_t count) {
  return {target, golden, MakeElements(target, pattern, count, 31),
          MakeElements(golden, pattern, count, 32), count};
}

class RowKernelsTest : public testing::TestWithParam<Kernels> {};

TEST_P(RowKernelsTest, RowsHaveTheBitsOfTheReferenceForAllDTypes) {
  const RowKernel kernel = RowKernelOf(GetParam().target);
  const auto whole = [] { return size_t{1} << 20; };
  for (const DType target : Components()) {
    for (const DType golden : {target, DType::kFloat32, DType::kFloat64}) {
      for (const Pattern pattern : {Pattern::kNormal, Pattern::kMixed}) {
        const Elements elements = Make(target, golden, pattern, 5 * 1000);
        for (const uint64_t row : {8, 100, 1000}) {
          ASSERT_EQ(Sum(kernel, elements, row, whole),
                    Sum(ReferenceRowKernel, elements, row, whole))
              << DTypeName(target) << "/" << DTypeName(golden) << " "
              << NameOf(pattern) << " rows of " << row;
        }
      }
    }
  }
}

TEST_P(RowKernelsTest, RowsHaveTheBitsOfTheReferenceForAllPatterns) {
  const RowKernel kernel = RowKernelOf(GetParam().target);
  const auto whole = [] { return size_t{1} << 20; };
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kFloat64,
                            DType::kInt64, DType::kFloat8E4m3fn}) {
    for (const Pattern pattern : kPatterns) {
      const Elements elements = Make(dtype, dtype, pattern, 8192 + 257 * 8);
      for (const uint64_t row : {1, 8, 128, 2562, 10248}) {
        ASSERT_EQ(Sum(kernel, elements, row, whole),
                  Sum(ReferenceRowKernel, elements, row, whole))
            << DTypeName(dtype) << " " << NameOf(pattern) << " rows of " << row;
      }
    }
  }
}

TEST_P(RowKernelsTest, RowsDoNotDependOnTheCutsBetweenCalls) {
  const RowKernel kernel = RowKernelOf(GetParam().target);
  std::mt19937_64 random(7);
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16, DType::kInt32}) {
    for (const Pattern pattern : {Pattern::kNormal, Pattern::kMixed}) {
      const Elements elements = Make(dtype, dtype, pattern, 40000);
      for (const uint64_t row : {1, 16, 250, 5000}) {
        const auto expected =
            Sum(kernel, elements, row, [] { return size_t{1} << 20; });
        for (int i = 0; i < 3; ++i) {
          EXPECT_EQ(Sum(kernel, elements, row,
                        [&random] { return (1 + random() % 4) * kCut; }),
                    expected)
              << DTypeName(dtype) << " rows of " << row;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Targets, RowKernelsTest,
                         testing::ValuesIn(SupportedKernels().begin(),
                                           SupportedKernels().end()),
                         [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(ChosenRowKernelTest, IsThatOfTheChosenTarget) {
  EXPECT_EQ(ChosenRowKernel(), RowKernelOf(ChosenKernels().target));
  EXPECT_EQ(RowKernelOf(kReferenceTarget), ReferenceRowKernel);
}

}  // namespace
}  // namespace msitd::compute
