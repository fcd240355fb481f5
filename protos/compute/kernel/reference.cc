// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/kernel/reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "protos/compute/kernel/reference_lanes.h"
#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

template <typename T>
T Read(const std::byte* bytes, size_t index) {
  T out;
  std::memcpy(&out, bytes + index * sizeof(T), sizeof(T));
  return out;
}

// A float of sign, `exponent_bits` and `mantissa_bits` as in IEEE 754. Without
// `has_infinity` only the pattern of all ones is special: it is NaN.
double FromBits(uint32_t bits, int exponent_bits, int mantissa_bits,
                bool has_infinity) {
  const uint32_t mantissa = bits & ((1u << mantissa_bits) - 1);
  const uint32_t exponent = bits >> mantissa_bits & ((1u << exponent_bits) - 1);
  const bool negative = bits >> (mantissa_bits + exponent_bits) & 1;
  const uint32_t ones = (1u << exponent_bits) - 1;
  const int bias = (1 << (exponent_bits - 1)) - 1;
  double magnitude = 0;
  if (has_infinity && exponent == ones) {
    magnitude = mantissa == 0 ? std::numeric_limits<double>::infinity()
                              : std::numeric_limits<double>::quiet_NaN();
  } else if (!has_infinity && exponent == ones &&
             mantissa == (1u << mantissa_bits) - 1) {
    magnitude = std::numeric_limits<double>::quiet_NaN();
  } else if (exponent == 0) {
    magnitude = std::ldexp(mantissa, 1 - bias - mantissa_bits);
  } else {
    magnitude = std::ldexp(mantissa + (1u << mantissa_bits),
                           static_cast<int>(exponent) - bias - mantissa_bits);
  }
  return negative ? -magnitude : magnitude;
}

// The same without special patterns, for any bias.
double FromSmallBits(uint8_t bits, int exponent_bits, int mantissa_bits,
                     int bias) {
  const int exponent = bits >> mantissa_bits & ((1 << exponent_bits) - 1);
  const double fraction =
      std::ldexp(bits & ((1 << mantissa_bits) - 1), -mantissa_bits);
  const double magnitude = std::ldexp(exponent == 0 ? fraction : 1 + fraction,
                                      (exponent == 0 ? 1 : exponent) - bias);
  return (bits >> (exponent_bits + mantissa_bits) & 1) != 0 ? -magnitude
                                                            : magnitude;
}

// A float whose only NaN has the bits of a negative zero.
double FromFnuz(uint8_t bits, int exponent_bits, int mantissa_bits, int bias) {
  if (bits == 0x80) return std::numeric_limits<double>::quiet_NaN();
  return FromSmallBits(bits, exponent_bits, mantissa_bits, bias);
}

// Bit after bit, from the top, as the paper on HiFloat8 draws it.
double FromHifloat8(uint8_t bits) {
  if (bits == 0x80) return std::numeric_limits<double>::quiet_NaN();
  const double sign = (bits & 0x80) != 0 ? -1 : 1;
  if ((bits & 0x7f) == 0x6f) {
    return sign * std::numeric_limits<double>::infinity();
  }
  int left = 7;
  const auto take = [&](int count) {
    left -= count;
    return bits >> left & ((1 << count) - 1);
  };
  int exponent_bits = take(2);
  if (exponent_bits != 0) {
    ++exponent_bits;
  } else if (take(1) == 1) {
    exponent_bits = 1;
  } else if (take(1) == 0) {
    const int mantissa = take(3);
    return mantissa == 0 ? 0 : sign * std::ldexp(1, mantissa - 23);
  }
  int exponent = 0;
  if (exponent_bits > 0) {
    const bool is_negative = take(1) == 1;
    const int rest = exponent_bits == 1 ? 0 : take(exponent_bits - 1);
    exponent = (1 << (exponent_bits - 1)) + rest;
    if (is_negative) exponent = -exponent;
  }
  const int mantissa_bits = left;
  return sign * std::ldexp(1 + std::ldexp(take(mantissa_bits), -mantissa_bits),
                           exponent);
}

template <typename T>
bool SummarizeBlock(DType component, const std::byte* bytes,
                    SummaryState& state) {
  const auto block = ReadBlock<T>(component, bytes);
  const auto squares = SumLanes(Map(block, [](T x) { return x * x; }));
  const bool all_zero =
      std::all_of(block.begin(), block.end(), [](T x) { return x == 0; });
  if (!AllAtMost(squares, kSquaresHigh<T>)) return false;
  if (!AnyAtLeast(squares, kSquaresLow<T>) && !all_zero) return false;
  AddTo(state.sum, SumLanes(block));
  AddTo(state.l1, SumLanes(Map(block, [](T x) { return std::fabs(x); })));
  AddTo(state.squares, squares);
  for (const T x : block) {
    state.min = std::min(state.min, static_cast<double>(x));
    state.max = std::max(state.max, static_cast<double>(x));
    if (x == 0) ++state.zero_count;
  }
  return true;
}

}  // namespace

double ReferenceElement(DType component, const std::byte* bytes, size_t index) {
  switch (StoredAs(component)) {
    case DType::kBool:
      return Read<uint8_t>(bytes, index) == 0 ? 0 : 1;
    case DType::kInt8:
      return Read<int8_t>(bytes, index);
    case DType::kInt16:
      return Read<int16_t>(bytes, index);
    case DType::kInt32:
      return Read<int32_t>(bytes, index);
    case DType::kInt64:
      return static_cast<double>(Read<int64_t>(bytes, index));
    case DType::kUint8:
      return Read<uint8_t>(bytes, index);
    case DType::kUint16:
      return Read<uint16_t>(bytes, index);
    case DType::kUint32:
      return Read<uint32_t>(bytes, index);
    case DType::kUint64:
      return static_cast<double>(Read<uint64_t>(bytes, index));
    case DType::kFloat16:
      return FromBits(Read<uint16_t>(bytes, index), 5, 10, true);
    case DType::kBfloat16:
      return FromBits(Read<uint16_t>(bytes, index), 8, 7, true);
    case DType::kFloat32:
      return Read<float>(bytes, index);
    case DType::kFloat64:
      return Read<double>(bytes, index);
    case DType::kFloat8E4m3fn:
      return FromBits(Read<uint8_t>(bytes, index), 4, 3, false);
    case DType::kFloat8E5m2:
      return FromBits(Read<uint8_t>(bytes, index), 5, 2, true);
    case DType::kFloat4E2m1fn:
      return FromSmallBits(Read<uint8_t>(bytes, index), 2, 1, 1);
    case DType::kFloat4E1m2:
      return FromSmallBits(Read<uint8_t>(bytes, index), 1, 2, 1);
    case DType::kFloat6E2m3fn:
      return FromSmallBits(Read<uint8_t>(bytes, index), 2, 3, 1);
    case DType::kFloat6E3m2fn:
      return FromSmallBits(Read<uint8_t>(bytes, index), 3, 2, 3);
    case DType::kHifloat8:
      return FromHifloat8(Read<uint8_t>(bytes, index));
    case DType::kFloat8E4m3fnuz:
      return FromFnuz(Read<uint8_t>(bytes, index), 4, 3, 8);
    case DType::kFloat8E5m2fnuz:
      return FromFnuz(Read<uint8_t>(bytes, index), 5, 2, 16);
    case DType::kFloat8E8m0fnu: {
      const auto bits = Read<uint8_t>(bytes, index);
      return bits == 255 ? std::numeric_limits<double>::quiet_NaN()
                         : std::ldexp(1, bits - 127);
    }
    default:
      break;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

void ReferenceSummaryKernel(DType component, const std::byte* bytes,
                            size_t count, SummaryState& state) {
  const size_t step = kBlockElements * ElementBytes(component);
  state.count += count;
  for (; count >= kBlockElements; count -= kBlockElements, bytes += step) {
    const bool taken = FitsFloat(component)
                           ? SummarizeBlock<float>(component, bytes, state)
                           : SummarizeBlock<double>(component, bytes, state);
    if (!taken) AddCarefully(component, bytes, kBlockElements, state);
  }
  if (count != 0) AddCarefully(component, bytes, count, state);
}

}  // namespace msitd::compute
