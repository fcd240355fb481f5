// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>

// Floats of 8 bits and fewer whose values are read from a table, because no
// instruction converts them. Every value is exact in float.
namespace msitd::compute {

// The value of each byte.
using CodedValues = std::array<float, 256>;

// 2^exponent.
constexpr float PowerOfTwo(int exponent) {
  float out = 1;
  for (; exponent > 0; --exponent) out *= 2;
  for (; exponent < 0; ++exponent) out /= 2;
  return out;
}

// The values of a format that has sign, exponent and mantissa, in this order,
// in the low bits of a byte, and neither infinities nor NaN. Such are those of
// OCP Microscaling 1.0, and E1M2, whose bias is 1.
constexpr CodedValues SmallFloatValues(int exponent_bits, int mantissa_bits,
                                       int bias) {
  CodedValues out = {};
  for (int code = 0; code < 256; ++code) {
    const int mantissa = code & ((1 << mantissa_bits) - 1);
    const int exponent = code >> mantissa_bits & ((1 << exponent_bits) - 1);
    const bool is_negative = (code >> (mantissa_bits + exponent_bits) & 1) != 0;
    const int digits =
        exponent == 0 ? mantissa : mantissa + (1 << mantissa_bits);
    const float magnitude =
        static_cast<float>(digits) *
        PowerOfTwo((exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
    out[static_cast<size_t>(code)] = is_negative ? -magnitude : magnitude;
  }
  return out;
}

// The same in a whole byte, where what would be a negative zero is the only
// NaN.
constexpr CodedValues FnuzValues(int exponent_bits, int mantissa_bits,
                                 int bias) {
  CodedValues out = SmallFloatValues(exponent_bits, mantissa_bits, bias);
  out[0x80] = std::numeric_limits<float>::quiet_NaN();
  return out;
}

// Powers of two without a sign, as scales of blocks are; 255 is NaN.
constexpr CodedValues E8m0Values() {
  CodedValues out = {};
  for (int code = 0; code < 255; ++code) {
    out[static_cast<size_t>(code)] = PowerOfTwo(code - 127);
  }
  out[255] = std::numeric_limits<float>::quiet_NaN();
  return out;
}

// HiFloat8 (arXiv:2409.16626). Behind the sign, a prefix code says how many
// bits the exponent has. The exponent is a sign and a magnitude whose leading
// one is not stored; the remaining bits are the mantissa. Codes without a
// prefix are zero and the powers of two below all other values.
constexpr CodedValues Hifloat8Values() {
  CodedValues out = {};
  for (int code = 0; code < 128; ++code) {
    float value = 0;
    if (code < 8) {
      value = code == 0 ? 0.0F : PowerOfTwo(code - 23);
    } else {
      // 11, 10, 01, 001 and 0001 stand for 4, 3, 2, 1 and 0 bits.
      const int exponent_bits =
          code >= 32 ? (code >> 5) + 1 : (code >= 16 ? 1 : 0);
      const int mantissa_bits = exponent_bits < 2 ? 3 : 5 - exponent_bits;
      int exponent = 0;
      if (exponent_bits > 0) {
        const int stored = code >> mantissa_bits & ((1 << exponent_bits) - 1);
        const int leading = 1 << (exponent_bits - 1);
        const int magnitude = leading | (stored & (leading - 1));
        exponent = (stored & leading) != 0 ? -magnitude : magnitude;
      }
      const int mantissa = code & ((1 << mantissa_bits) - 1);
      value = static_cast<float>(mantissa + (1 << mantissa_bits)) *
              PowerOfTwo(exponent - mantissa_bits);
    }
    out[static_cast<size_t>(code)] = value;
    out[static_cast<size_t>(code + 128)] = -value;
  }
  out[0x80] = std::numeric_limits<float>::quiet_NaN();
  out[0x6f] = std::numeric_limits<float>::infinity();
  out[0xef] = -std::numeric_limits<float>::infinity();
  return out;
}

inline constexpr CodedValues kFloat4E2m1fnValues = SmallFloatValues(2, 1, 1);
inline constexpr CodedValues kFloat4E1m2Values = SmallFloatValues(1, 2, 1);
inline constexpr CodedValues kFloat6E2m3fnValues = SmallFloatValues(2, 3, 1);
inline constexpr CodedValues kFloat6E3m2fnValues = SmallFloatValues(3, 2, 3);
inline constexpr CodedValues kFloat8E4m3fnuzValues = FnuzValues(4, 3, 8);
inline constexpr CodedValues kFloat8E5m2fnuzValues = FnuzValues(5, 2, 16);
inline constexpr CodedValues kHifloat8Values = Hifloat8Values();
inline constexpr CodedValues kFloat8E8m0fnuValues = E8m0Values();

}  // namespace msitd::compute
