// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/protos/compute/element_patterns.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "protos/compute/kernel/reference.h"
#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

template <typename T>
uint64_t Clamped(double value) {
  if (std::isnan(value)) return 0;
  if (value <= static_cast<double>(std::numeric_limits<T>::min())) {
    return static_cast<uint64_t>(std::numeric_limits<T>::min());
  }
  if (value >= static_cast<double>(std::numeric_limits<T>::max())) {
    return static_cast<uint64_t>(std::numeric_limits<T>::max());
  }
  return static_cast<uint64_t>(static_cast<T>(value));
}

// Searches for the nearest of the 2^(bits - 1) magnitudes, which are in
// ascending order.
uint64_t NearestBits(DType component, double value, int bits) {
  const uint64_t sign = std::signbit(value) ? uint64_t{1} << (bits - 1) : 0;
  const auto magnitude = [component](uint64_t pattern) {
    std::byte bytes[8];
    std::memcpy(bytes, &pattern, sizeof(pattern));
    return ReferenceElement(component, bytes, 0);
  };
  uint64_t low = 0;
  uint64_t high = (uint64_t{1} << (bits - 1)) - 1;  // A NaN in every dtype.
  if (std::isnan(value)) return high;
  while (low + 1 < high) {
    const uint64_t middle = low + (high - low) / 2;
    (magnitude(middle) <= std::fabs(value) ? low : high) = middle;
  }
  const double above = magnitude(low + 1);
  const bool up = std::isfinite(above) &&
                  above - std::fabs(value) < std::fabs(value) - magnitude(low);
  return sign | (low + (up ? 1 : 0));
}

// Returns whether Encode searches for a value among the 256 possible ones.
bool IsCoded(DType component) {
  const DTypeInfo& info = InfoOf(component);
  return info.kind == DTypeKind::kFloat && !info.is_ordered;
}

uint64_t NearestCode(DType component, double value) {
  uint64_t best = 0;
  double best_distance = kInfinity;
  for (uint64_t code = 0; code < 256; ++code) {
    const auto byte = static_cast<std::byte>(code);
    const double decoded = ReferenceElement(component, &byte, 0);
    if (std::isnan(value) && std::isnan(decoded)) return code;
    const double distance = decoded == value ? 0 : std::fabs(decoded - value);
    if (distance < best_distance) {
      best = code;
      best_distance = distance;
    }
  }
  return best;
}

double Largest(DType component) {
  switch (component) {
    case DType::kHifloat8:
      return 32768;
    case DType::kFloat8E8m0fnu:
      return 0x1p127;
    case DType::kFloat6E3m2fn:
      return 28;
    case DType::kFloat6E2m3fn:
      return 7.5;
    case DType::kFloat4E2m1fn:
      return 6;
    case DType::kFloat4E1m2:
      return 1.75;
    case DType::kFloat64:
      return std::numeric_limits<double>::max();
    case DType::kFloat32:
    case DType::kBfloat16:
      return 3.3e38;
    case DType::kFloat16:
      return 65504;
    case DType::kFloat8E5m2:
      return 57344;
    case DType::kFloat8E4m3fn:
      return 448;
    default:
      return std::ldexp(1, 8 * static_cast<int>(ElementBytes(component)));
  }
}

double Smallest(DType component) {
  switch (component) {
    case DType::kHifloat8:
      return 0x1p-22;
    case DType::kFloat8E8m0fnu:
      return 0x1p-127;
    case DType::kFloat6E3m2fn:
      return 0.0625;
    case DType::kFloat6E2m3fn:
      return 0.125;
    case DType::kFloat4E2m1fn:
      return 0.5;
    case DType::kFloat4E1m2:
      return 0.25;
    case DType::kFloat64:
      return std::numeric_limits<double>::denorm_min();
    case DType::kFloat32:
      return std::numeric_limits<float>::denorm_min();
    case DType::kBfloat16:
      return 0x1p-133;
    case DType::kFloat16:
      return 0x1p-24;
    case DType::kFloat8E5m2:
      return 0x1p-16;
    case DType::kFloat8E4m3fn:
      return 0x1p-9;
    default:
      return 1;
  }
}

class Source {
 public:
  Source(DType component, uint64_t seed)
      : component_(component), random_(seed) {}

  double Next(Pattern pattern, size_t i) {
    switch (pattern) {
      case Pattern::kNormal:
        return Normal();
      case Pattern::kMixed:
        return random_() % 40 == 0 ? Special() : Normal();
      case Pattern::kTiny:
        return Normal() * Smallest(component_) * 64;
      case Pattern::kHuge:
        return Uniform(-1, 1) * Largest(component_);
      case Pattern::kWide:
        return Sign() * std::exp2(Uniform(std::log2(Smallest(component_)),
                                          std::log2(Largest(component_))));
      case Pattern::kZeros:
        return random_() % 2 == 0 ? 0.0 : -0.0;
      case Pattern::kConstant:
        return -0.7 * Scale();
      case Pattern::kSparse:
        return i % 97 == 13 ? Normal() : 0;
      case Pattern::kAnyBits:
        break;
    }
    return 0;
  }

  uint64_t Bits() { return random_(); }

 private:
  // Integers need a range around zero.
  double Scale() const { return IsFloatingPoint(component_) ? 1 : 50; }
  double Sign() { return random_() % 2 == 0 ? 1 : -1; }
  double Uniform(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
  }
  double Normal() {
    return std::normal_distribution<double>(0.1, 1)(random_) * Scale();
  }
  double Special() {
    const double values[] = {kNaN,
                             kInfinity,
                             -kInfinity,
                             0.0,
                             -0.0,
                             Smallest(component_),
                             -Largest(component_)};
    return values[random_() % std::size(values)];
  }

  DType component_;
  std::mt19937_64 random_;
};

}  // namespace

std::string NameOf(Pattern pattern) {
  constexpr const char* kNames[] = {"normal", "any_bits", "mixed",
                                    "tiny",   "huge",     "wide",
                                    "zeros",  "constant", "sparse"};
  return kNames[static_cast<int>(pattern)];
}

std::vector<DType> Components() {
  std::vector<DType> out;
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!IsComplex(dtype)) out.push_back(dtype);
  }
  return out;
}

uint64_t Encode(DType component, double value) {
  switch (component) {
    case DType::kBool:
      return value >= 0.5 ? 1 : 0;
    case DType::kInt1:
    case DType::kInt2:
    case DType::kInt3:
    case DType::kInt4:
    case DType::kInt5:
    case DType::kInt6:
    case DType::kInt7:
    case DType::kInt8:
      return Clamped<int8_t>(value);
    case DType::kInt16:
      return Clamped<int16_t>(value);
    case DType::kInt32:
      return Clamped<int32_t>(value);
    case DType::kInt64:
      return Clamped<int64_t>(value);
    case DType::kUint1:
    case DType::kUint2:
    case DType::kUint3:
    case DType::kUint4:
    case DType::kUint5:
    case DType::kUint6:
    case DType::kUint7:
    case DType::kUint8:
    case DType::kBits8:
    case DType::kBits1x8:
    case DType::kBits2x4:
    case DType::kBits4x2:
      return Clamped<uint8_t>(value);
    case DType::kUint16:
    case DType::kBits16:
      return Clamped<uint16_t>(value);
    case DType::kUint32:
      return Clamped<uint32_t>(value);
    case DType::kUint64:
      return Clamped<uint64_t>(value);
    case DType::kFloat32:
      return std::bit_cast<uint32_t>(static_cast<float>(value));
    case DType::kFloat64:
      return std::bit_cast<uint64_t>(value);
    default:
      if (IsCoded(component)) return NearestCode(component, value);
      return NearestBits(component, value,
                         8 * static_cast<int>(ElementBytes(component)));
  }
}

void Append(DType component, double value, std::vector<std::byte>& out) {
  const uint64_t bits = Encode(component, value);
  const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
  out.insert(out.end(), bytes, bytes + ElementBytes(component));
}

std::vector<std::byte> MakeElements(DType component, Pattern pattern,
                                    size_t count, uint64_t seed) {
  Source source(component, seed);
  std::vector<std::byte> out;
  out.reserve(count * ElementBytes(component));
  for (size_t i = 0; i < count; ++i) {
    if (pattern == Pattern::kAnyBits) {
      const uint64_t bits = source.Bits();
      const auto* bytes = reinterpret_cast<const std::byte*>(&bits);
      out.insert(out.end(), bytes, bytes + ElementBytes(component));
    } else {
      Append(component, source.Next(pattern, i), out);
    }
  }
  return out;
}

}  // namespace msitd::compute
