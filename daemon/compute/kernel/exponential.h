// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// Constants of e^x = 2^k e^r, r = x - k ln 2, |r| <= 0.35. Every target
// evaluates them in the same order and without FMA.
namespace msitd::compute {

template <typename T>
struct Exponential;

template <>
struct Exponential<float> {
  // Added and subtracted again, it rounds to a whole number.
  static constexpr float kRound = 0x1.8p23F;
  static constexpr int32_t kRoundBits = 0x4b400000;
  static constexpr float kLog2E = 0x1.715476p0F;
  static constexpr float kLn2 = 0x1.62e430p-1F;
  // Nine bits, so that the product with any k up to 2^15 is exact.
  static constexpr float kLn2High = 0x1.63p-1F;
  static constexpr float kLn2Low = -0x1.bd0106p-13F;
  static constexpr int kMantissaBits = 23;
  static constexpr float kBias = 127;
  // e^r = 1 + r + r^2 (even[0] + odd[0] r + even[1] r^2 + ...), minimax:
  // 3.2e-9 relative, 7e-8 as evaluated.
  static constexpr size_t kEvenTerms = 3;
  static constexpr size_t kOddTerms = 2;
  static constexpr float kEven[kEvenTerms] = {0x1.fffffcp-2F, 0x1.5559p-5F,
                                              0x1.6a2042p-10F};
  static constexpr float kOdd[kOddTerms] = {0x1.55548ep-3F, 0x1.123c44p-7F};
};

template <>
struct Exponential<double> {
  static constexpr double kRound = 0x1.8p52;
  // x log2 e is taken as whole from here on.
  static constexpr double kRoundMax = 0x1p51;
  static constexpr double kLog2E = 0x1.71547652b82fep0;
  static constexpr double kLn2 = 0x1.62e42fefa39efp-1;
  // Eleven bits each in the first two, so that products with any k up to 2^41
  // are exact.
  static constexpr double kLn2High = 0x1.62cp-1;
  static constexpr double kLn2Middle = 0x1.216p-12;
  static constexpr double kLn2Low = 0x1.f7d1cf79abc9ep-24;
  // Bounds r where x is so large that its fraction means nothing.
  static constexpr double kRemainderMax = 0.5;
  static constexpr int kMantissaBits = 52;
  // Added to a whole number, 2^52 leaves it in the last bits of the sum. With
  // the bias added as well, those bits are the exponent field of a power of 2.
  static constexpr double kWhole = 0x1p52;
  static constexpr double kBias = 1023;
  // 1 / n! for n = 2, 4, ..., 12 and 3, 5, ..., 13.
  static constexpr size_t kEvenTerms = 6;
  static constexpr size_t kOddTerms = 6;
  static constexpr double kEven[kEvenTerms] = {1.0 / 2,       1.0 / 24,
                                               1.0 / 720,     1.0 / 40320,
                                               1.0 / 3628800, 1.0 / 479001600};
  static constexpr double kOdd[kOddTerms] = {
      1.0 / 6,      1.0 / 120,      1.0 / 5040,
      1.0 / 362880, 1.0 / 39916800, 1.0 / 6227020800.0};
};

}  // namespace msitd::compute
