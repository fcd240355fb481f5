// SPDX-License-Identifier: Apache-2.0

// Results are compared between hosts and kept for years. These are the bits
// that every compiler, CPU and version must produce. A change here is a change
// of the order of addition, which must be updated in docs/kernels.md, too.
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "daemon/compute/pair_metrics.h"
#include "gtest/gtest.h"
#include "protos/compute/digest.h"
#include "tests/unit/protos/compute/element_patterns.h"

namespace msitd::compute {
namespace {

constexpr size_t kCount = 3000;

// Returns numbers in [-scale, scale), generated with integer operations only.
std::vector<std::byte> MakeTensor(DType dtype, double scale, uint64_t seed) {
  std::vector<std::byte> out;
  for (size_t i = 0; i < kCount; ++i) {
    seed = seed * 6364136223846793005U + 1442695040888963407U;
    Append(dtype, (static_cast<double>(seed >> 11) * 0x1p-52 - 1) * scale, out);
  }
  return out;
}

// FNV-1a over 64-bit words.
class Fingerprint {
 public:
  void Add(uint64_t word) { hash_ = (hash_ ^ word) * 1099511628211U; }
  void Add(double value) { Add(std::bit_cast<uint64_t>(value)); }
  uint64_t value() const { return hash_; }

 private:
  uint64_t hash_ = 1469598103934665603U;
};

uint64_t SummaryFingerprint(DType dtype, double scale) {
  const Summary s = Summarize(MakeTensor(dtype, scale, 1), dtype);
  Fingerprint out;
  out.Add(s.zero_count);
  for (const double value : {s.min, s.max, s.sum, s.l1, s.sum_squares}) {
    out.Add(value);
  }
  out.Add(static_cast<uint64_t>(s.sum_squares_exponent));
  return out.value();
}

uint64_t PairFingerprint(DType dtype, double scale) {
  PairAccumulator accumulator(dtype, dtype);
  accumulator.Update(MakeTensor(dtype, scale, 1), MakeTensor(dtype, scale, 2));
  const PairMetrics metrics = accumulator.Finish();
  Fingerprint out;
  // The metrics after it are derived from the same sums.
  for (int i = 0; i <= static_cast<int>(Metric::kInfMismatchCount); ++i) {
    out.Add(metrics.values[i].value_or(-1));
  }
  out.Add(metrics.max_abs_index);
  return out.value();
}

struct Frozen {
  DType dtype;
  double scale;
  uint64_t summary;
  uint64_t pair;
};

class FrozenBitsTest : public testing::TestWithParam<Frozen> {};

TEST_P(FrozenBitsTest, SummaryAndMetricsAreThoseOfEveryCpu) {
  const Frozen& frozen = GetParam();
  EXPECT_EQ(SummaryFingerprint(frozen.dtype, frozen.scale), frozen.summary);
  EXPECT_EQ(PairFingerprint(frozen.dtype, frozen.scale), frozen.pair);
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, FrozenBitsTest,
    testing::Values(
        Frozen{DType::kFloat32, 4, 0x4ea5c2a5bb88c9c4, 0x598178246e068757},
        Frozen{DType::kFloat32, 1e-19, 0xdbc6a715930c8c2e, 0x38cf63261c91aa76},
        Frozen{DType::kFloat32, 1e30, 0x659f60272b98df69, 0x2d63acda94880644},
        Frozen{DType::kBfloat16, 40, 0xa0d8e7953d0b7711, 0xb90218d075b28692},
        Frozen{DType::kFloat16, 60000, 0x000588e7284d6711, 0x16e80a16bff92b51},
        Frozen{DType::kFloat8E4m3fn, 400, 0x4b8aeeb8895c7711,
               0x0d8527d8e0c2e587},
        Frozen{DType::kFloat8E5m2, 400, 0xb61ad0a1756c7711, 0x4425340f7e2a8189},
        Frozen{DType::kFloat64, 4, 0xba2e5bf35f24ceea, 0x5bf16cc4e5e3ee73},
        Frozen{DType::kFloat64, 1e300, 0xc4877cef9d33178e, 0xda59a7026becfcfb},
        Frozen{DType::kFloat64, 1e-300, 0xefb7a4af42a780e6, 0xe01d73dee56bd03d},
        Frozen{DType::kInt8, 100, 0xcc72a029ff578705, 0x9436a0d7a49084b8},
        Frozen{DType::kInt64, 1e18, 0x00d80149bc9fe9a9, 0x8575234771adc5dd}),
    [](const auto& info) {
      return std::string(DTypeName(info.param.dtype)) + "_" +
             std::to_string(info.index);
    });

}  // namespace
}  // namespace msitd::compute
