// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/kernel/reference.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "daemon/compute/number/element.h"
#include "daemon/compute/number/exponential.h"

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
using VirtualLanes = std::array<T, kVirtualLanes>;

// Adds element i of a block to lane i % 16, in order.
template <typename T>
VirtualLanes<T> SumLanes(const std::array<T, kBlockElements>& block) {
  VirtualLanes<T> lanes = {};
  for (size_t i = 0; i < kBlockElements; ++i) lanes[i % 16] += block[i];
  return lanes;
}

// Adds lanes j and j + 8 in T, then to lane j of the running sum in double.
template <typename T>
void AddTo(LaneSum& sum, const VirtualLanes<T>& lanes) {
  double folded[kFoldLanes];
  for (size_t j = 0; j < kFoldLanes; ++j) {
    folded[j] = static_cast<double>(lanes[j] + lanes[j + kFoldLanes]);
  }
  sum.Add(folded, 0);
}

template <typename T>
bool AllAtMost(const VirtualLanes<T>& lanes, T bound) {
  return std::all_of(lanes.begin(), lanes.end(),
                     [bound](T lane) { return lane <= bound; });
}

template <typename T>
bool AnyAtLeast(const VirtualLanes<T>& lanes, T bound) {
  return std::any_of(lanes.begin(), lanes.end(),
                     [bound](T lane) { return lane >= bound; });
}

template <typename T>
std::array<T, kBlockElements> ReadBlock(DType component,
                                        const std::byte* bytes) {
  std::array<T, kBlockElements> block;
  for (size_t i = 0; i < kBlockElements; ++i) {
    block[i] = static_cast<T>(ReferenceElement(component, bytes, i));
  }
  return block;
}

template <typename T, typename F>
std::array<T, kBlockElements> Map(const std::array<T, kBlockElements>& in,
                                  F function) {
  std::array<T, kBlockElements> out;
  std::transform(in.begin(), in.end(), out.begin(), function);
  return out;
}

template <typename T, typename F>
std::array<T, kBlockElements> Map(const std::array<T, kBlockElements>& a,
                                  const std::array<T, kBlockElements>& b,
                                  F function) {
  std::array<T, kBlockElements> out;
  std::transform(a.begin(), a.end(), b.begin(), out.begin(), function);
  return out;
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

template <typename T>
struct Split {
  T k;
  T r;
};

Split<float> SplitExponent(float x) {
  using E = Exponential<float>;
  const float shifted = x * E::kLog2E + E::kRound;
  const float k = shifted - E::kRound;
  return {k, (x - k * E::kLn2High) - k * E::kLn2Low};
}

Split<double> SplitExponent(double x) {
  using E = Exponential<double>;
  x = std::clamp(x, -kSoftmaxMagnitudeMax, kSoftmaxMagnitudeMax);
  double k = x * E::kLog2E;
  if (std::fabs(k) < E::kRoundMax) {
    const double shifted = k + E::kRound;
    k = shifted - E::kRound;
  }
  const double r = ((x - k * E::kLn2High) - k * E::kLn2Middle) - k * E::kLn2Low;
  return {k, std::clamp(r, -E::kRemainderMax, E::kRemainderMax)};
}

template <typename T>
T Power(T above, T r) {
  using E = Exponential<T>;
  const T square = r * r;
  T even = 0;
  for (size_t i = E::kEvenTerms; i-- > 0;) even = even * square + E::kEven[i];
  T odd = 0;
  for (size_t i = E::kOddTerms; i-- > 0;) odd = odd * square + E::kOdd[i];
  const T series = even + odd * r;
  const T power = (series * square + r) + 1;
  if (above <= -E::kBias) return 0;
  return power * std::ldexp(T{1}, static_cast<int>(above));
}

template <typename T>
void SoftmaxBlock(const std::array<T, kBlockElements>& target,
                  const std::array<T, kBlockElements>& golden, size_t count,
                  SoftmaxState& state) {
  std::array<Split<T>, kBlockElements> t;
  std::array<Split<T>, kBlockElements> g;
  T target_k = -std::numeric_limits<T>::infinity();
  T golden_k = target_k;
  for (size_t i = 0; i < count; ++i) {
    t[i] = SplitExponent(target[i]);
    g[i] = SplitExponent(golden[i]);
    target_k = std::max(target_k, t[i].k);
    golden_k = std::max(golden_k, g[i].k);
  }
  const auto moved = [&state](double k, double exponent) {
    return !state.started || k > exponent + kSoftmaxHeadroom ? k : exponent;
  };
  const double golden_exponent = moved(golden_k, state.golden_exponent);
  const double target_exponent = moved(target_k, state.target_exponent);
  if (!state.started || golden_exponent != state.golden_exponent ||
      target_exponent != state.target_exponent) {
    MoveReferences(golden_exponent, target_exponent, state);
  }
  std::array<T, kBlockElements> golden_powers = {};
  std::array<T, kBlockElements> target_powers = {};
  std::array<T, kBlockElements> weighted = {};
  for (size_t i = 0; i < count; ++i) {
    const T g_above = g[i].k - static_cast<T>(golden_exponent);
    const T t_above = t[i].k - static_cast<T>(target_exponent);
    golden_powers[i] = Power(g_above, g[i].r);
    target_powers[i] = Power(t_above, t[i].r);
    weighted[i] =
        golden_powers[i] *
        (Exponential<T>::kLn2 * (g_above - t_above) + (g[i].r - t[i].r));
  }
  AddTo(state.golden, SumLanes(golden_powers));
  AddTo(state.target, SumLanes(target_powers));
  AddTo(state.weighted, SumLanes(weighted));
}

bool Vanishes(const VirtualLanes<double>& squares,
              const std::array<double, kBlockElements>& block) {
  return !AnyAtLeast(squares, kSquaresLow<double>) &&
         std::any_of(block.begin(), block.end(),
                     [](double x) { return x != 0; });
}

bool FloatSoftmax(const VirtualLanes<double>& target_squares,
                  const VirtualLanes<double>& golden_squares,
                  const SoftmaxState& state) {
  return AllAtMost(target_squares, kSoftmaxFloatSquaresMax) &&
         AllAtMost(golden_squares, kSoftmaxFloatSquaresMax) &&
         std::fabs(state.golden_exponent) <= kSoftmaxFloatExponentMax &&
         std::fabs(state.target_exponent) <= kSoftmaxFloatExponentMax;
}

template <typename To, typename From>
std::array<To, kBlockElements> As(const std::array<From, kBlockElements>& in) {
  std::array<To, kBlockElements> out;
  std::transform(in.begin(), in.end(), out.begin(),
                 [](From x) { return static_cast<To>(x); });
  return out;
}

// T, exact for all elements, is the type of the ratios, and of the softmax
// where it serves.
template <typename T>
bool PairBlock(const std::array<double, kBlockElements>& t,
               const std::array<double, kBlockElements>& g, PairState& state) {
  const auto times = [](double a, double b) { return a * b; };
  const auto d = Map(t, g, [](double a, double b) { return std::fabs(a - b); });
  const auto tt = SumLanes(Map(t, t, times));
  const auto gg = SumLanes(Map(g, g, times));
  const auto dd = SumLanes(Map(d, d, times));
  if (!AllAtMost(tt, kSquaresHigh<double>)) return false;
  if (!AllAtMost(gg, kSquaresHigh<double>)) return false;
  if (!state.as_float) {
    if (!AllAtMost(dd, kSquaresHigh<double>)) return false;
    if (Vanishes(tt, t) || Vanishes(gg, g) || Vanishes(dd, d)) return false;
  }
  const auto ratios = Map(As<T>(t), As<T>(g), [](T a, T b) {
    const T divisor =
        b == 0 ? static_cast<T>(kZeroGoldenDivisor) : std::fabs(b);
    return std::fabs(a - b) / divisor;
  });
  if (!AllAtMost(SumLanes(ratios), kSquaresHigh<T>)) return false;

  AddTo(state.target_squares, tt);
  AddTo(state.golden_squares, gg);
  AddTo(state.products, SumLanes(Map(t, g, times)));
  AddTo(state.difference_squares, dd);
  AddTo(state.differences, SumLanes(d));
  AddTo(state.ratios, SumLanes(ratios));
  for (size_t i = 0; i < kBlockElements; ++i) {
    state.max_ratio = std::max(state.max_ratio, static_cast<double>(ratios[i]));
    if (t[i] != g[i]) ++state.mismatch_count;
    OfferDifference(t[i], g[i], state.count + i, state);
  }
  if (!state.softmax.defined) return true;
  if (std::is_same_v<T, float> && FloatSoftmax(tt, gg, state.softmax)) {
    SoftmaxBlock(As<T>(t), As<T>(g), kBlockElements, state.softmax);
  } else {
    SoftmaxBlock(t, g, kBlockElements, state.softmax);
  }
  return true;
}

// Replaces pairs with a side that is not finite by zeros, and counts them.
void Clear(std::array<double, kBlockElements>& target,
           std::array<double, kBlockElements>& golden, PairState& state) {
  for (size_t i = 0; i < kBlockElements; ++i) {
    double& t = target[i];
    double& g = golden[i];
    if (std::isfinite(t) && std::isfinite(g)) continue;
    const bool agree = t == g || (std::isnan(t) && std::isnan(g));
    ++state.cleared_count;
    state.mismatch_count += agree ? 0 : 1;
    state.nan_mismatch_count += std::isnan(t) != std::isnan(g) ? 1 : 0;
    const bool infinity = std::isinf(t) || std::isinf(g);
    state.infinity_mismatch_count += infinity && !agree ? 1 : 0;
    state.softmax.defined = false;
    t = 0;
    g = 0;
  }
}

void AnyPairs(const std::byte* target, const std::byte* golden, size_t count,
              PairState& state) {
  std::array<double, kBlockElements> t = {};
  std::array<double, kBlockElements> g = {};
  for (size_t i = 0; i < count; ++i) {
    t[i] = ReferenceElement(state.target, target, i);
    g[i] = ReferenceElement(state.golden, golden, i);
  }
  Clear(t, g, state);
  if (count == kBlockElements) {
    if (state.as_float && PairBlock<float>(t, g, state)) return;
    if (!state.as_float && PairBlock<double>(t, g, state)) return;
  }
  double t_copy[kBlockElements];
  double g_copy[kBlockElements];
  std::copy(t.begin(), t.end(), t_copy);
  std::copy(g.begin(), g.end(), g_copy);
  AddPairCarefully(t_copy, g_copy, count, state);
  if (state.softmax.defined) SoftmaxBlock(t, g, count, state.softmax);
}

}  // namespace

double ReferenceElement(DType component, const std::byte* bytes, size_t index) {
  switch (component) {
    case DType::kBool:
      return Read<uint8_t>(bytes, index) == 0 ? 0 : 1;
    case DType::kInt1:
    case DType::kInt2:
    case DType::kInt4:
    case DType::kInt8:
      return Read<int8_t>(bytes, index);
    case DType::kInt16:
      return Read<int16_t>(bytes, index);
    case DType::kInt32:
      return Read<int32_t>(bytes, index);
    case DType::kInt64:
      return static_cast<double>(Read<int64_t>(bytes, index));
    case DType::kUint1:
    case DType::kUint2:
    case DType::kUint4:
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
    case DType::kFloat8E8m0fnu: {
      const auto bits = Read<uint8_t>(bytes, index);
      return bits == 255 ? std::numeric_limits<double>::quiet_NaN()
                         : std::ldexp(1, bits - 127);
    }
    case DType::kComplex32:
    case DType::kComplex64:
    case DType::kComplex128:
    case DType::kUnspecified:
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

void ReferencePairKernel(const std::byte* target, const std::byte* golden,
                         size_t count, PairState& state) {
  const size_t target_step = kBlockElements * ElementBytes(state.target);
  const size_t golden_step = kBlockElements * ElementBytes(state.golden);
  while (count != 0) {
    const size_t now = std::min(count, kBlockElements);
    AnyPairs(target, golden, now, state);
    state.count += now;
    count -= now;
    target += target_step;
    golden += golden_step;
  }
}

}  // namespace msitd::compute
