// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

// The order in which every target adds, which makes sums equal bit by bit.
// docs/kernels.md explains it; nothing here depends on the width of a vector.
namespace msitd::compute {

// Elements are taken in blocks of 128: element i of a block goes to virtual
// lane i % 16, which adds its eight elements one after the other.
inline constexpr size_t kBlockElements = 128;
inline constexpr size_t kVirtualLanes = 16;
inline constexpr size_t kRowsPerBlock = kBlockElements / kVirtualLanes;
// Virtual lanes j and j + 8 are added to each other, and the result to lane j
// of a running sum in double.
inline constexpr size_t kFoldLanes = kVirtualLanes / 2;

// Blocks with magnitudes that overflow or vanish when squared in double are
// scaled by a power of two: by 2^-600 above 2^480, by 2^600 below 2^-400.
inline constexpr int kScaleExponent = 600;
inline constexpr double kScaleUp = 0x1p600;
inline constexpr double kScaleDown = 0x1p-600;
inline constexpr double kLargeMagnitude = 0x1p480;
inline constexpr double kSmallMagnitude = 0x1p-400;

// The fast path takes a block if the sums of squares of its virtual lanes pass
// two conditions. Every sum is at most kSquaresHigh. Some sum is at least
// kSquaresLow, or all elements are zero. NaN and infinities fail the first one.
template <typename T>
inline constexpr T kSquaresHigh = 0;
template <typename T>
inline constexpr T kSquaresLow = 0;
// At kSquaresLow, subnormal squares lose at most 2^-31 of the sum by rounding.
template <>
inline constexpr float kSquaresHigh<float> = 0x1p116F;
template <>
inline constexpr float kSquaresLow<float> = 0x1p-112F;
template <>
inline constexpr double kSquaresHigh<double> = 0x1p960;
template <>
inline constexpr double kSquaresLow<double> = 0x1p-800;

// A running sum: the lanes' total times 2^exponent.
struct LaneSum {
  alignas(64) double lane[kFoldLanes] = {};
  int64_t exponent = 0;

  // Adds the fold lanes of one block, which were scaled by 2^-block_exponent.
  // Where the exponents differ, the larger one stays. The part that is lost is
  // far below one rounding of a sum of squares or of the L1 norm.
  void Add(const double (&block)[kFoldLanes], int64_t block_exponent);

  // The lanes' total, without the exponent.
  double Mantissa() const;

  // The sum; infinite if it is too large for a double.
  double Value() const;
};

// Folds the 16 virtual lanes of a block into 8.
void Fold(const double (&virtual_lane)[kVirtualLanes],
          double (&out)[kFoldLanes]);

// Adds a whole block of double to the virtual lanes and folds them.
void SumBlock(const double (&x)[kBlockElements], double (&out)[kFoldLanes]);

// Returns x * 2^exponent for any exponent.
double Scale(double x, int64_t exponent);

// Natural logarithm of a positive finite number, within 2 ULP. Uses basic
// operations only: the C library's logarithm gives other bits on CPUs with FMA.
double Log(double x);

}  // namespace msitd::compute
