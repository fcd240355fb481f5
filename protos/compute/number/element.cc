// SPDX-License-Identifier: Apache-2.0
#include "protos/compute/number/element.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

#include "protos/compute/number/coded_float.h"

namespace msitd::compute {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double FromHalf(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  const uint32_t rest = bits & 0x7fffu;
  // As a float this is the half divided by 2^112, subnormals included.
  const float scaled = std::bit_cast<float>(sign | rest << 13);
  if (rest > 0x7c00) return kNaN;
  if (rest == 0x7c00) {
    return sign ? -std::numeric_limits<double>::infinity()
                : std::numeric_limits<double>::infinity();
  }
  return static_cast<double>(scaled) * 0x1p112;
}

double FromE4m3fn(uint8_t bits) {
  // The only NaN; there are no infinities.
  if ((bits & 0x7f) == 0x7f) return kNaN;
  const uint32_t sign = (bits & 0x80u) << 24;
  const float scaled = std::bit_cast<float>(sign | (bits & 0x7fu) << 20);
  return static_cast<double>(scaled) * 0x1p120;
}

template <typename T, typename Convert>
void ForEach(const std::byte* bytes, size_t count, double* out,
             Convert convert) {
  for (size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, bytes + i * sizeof(T), sizeof(T));
    out[i] = convert(element);
  }
}

template <typename T>
void Cast(const std::byte* bytes, size_t count, double* out) {
  ForEach<T>(bytes, count, out, [](T x) { return static_cast<double>(x); });
}

void LookUp(const CodedValues& values, const std::byte* bytes, size_t count,
            double* out) {
  for (size_t i = 0; i < count; ++i) {
    out[i] = double{values[static_cast<size_t>(bytes[i])]};
  }
}

}  // namespace

void ToDouble(DType component, const std::byte* bytes, size_t count,
              double* out) {
  switch (StoredAs(component)) {
    case DType::kBool:
      return ForEach<uint8_t>(bytes, count, out,
                              [](uint8_t x) { return x != 0 ? 1.0 : 0.0; });
    case DType::kInt8:
      return Cast<int8_t>(bytes, count, out);
    case DType::kInt16:
      return Cast<int16_t>(bytes, count, out);
    case DType::kInt32:
      return Cast<int32_t>(bytes, count, out);
    case DType::kInt64:
      return Cast<int64_t>(bytes, count, out);
    case DType::kUint8:
      return Cast<uint8_t>(bytes, count, out);
    case DType::kUint16:
      return Cast<uint16_t>(bytes, count, out);
    case DType::kUint32:
      return Cast<uint32_t>(bytes, count, out);
    case DType::kUint64:
      return Cast<uint64_t>(bytes, count, out);
    case DType::kFloat16:
      return ForEach<uint16_t>(bytes, count, out, FromHalf);
    case DType::kBfloat16:
      return ForEach<uint16_t>(bytes, count, out, [](uint16_t x) {
        return static_cast<double>(
            std::bit_cast<float>(static_cast<uint32_t>(x) << 16));
      });
    case DType::kFloat32:
      return Cast<float>(bytes, count, out);
    case DType::kFloat64:
      return Cast<double>(bytes, count, out);
    case DType::kFloat8E4m3fn:
      return ForEach<uint8_t>(bytes, count, out, FromE4m3fn);
    case DType::kFloat8E5m2:
      return ForEach<uint8_t>(bytes, count, out, [](uint8_t x) {
        return FromHalf(static_cast<uint16_t>(x << 8));
      });
    case DType::kFloat4E2m1fn:
      return LookUp(kFloat4E2m1fnValues, bytes, count, out);
    case DType::kFloat4E1m2:
      return LookUp(kFloat4E1m2Values, bytes, count, out);
    case DType::kFloat6E2m3fn:
      return LookUp(kFloat6E2m3fnValues, bytes, count, out);
    case DType::kFloat6E3m2fn:
      return LookUp(kFloat6E3m2fnValues, bytes, count, out);
    case DType::kHifloat8:
      return LookUp(kHifloat8Values, bytes, count, out);
    case DType::kFloat8E4m3fnuz:
      return LookUp(kFloat8E4m3fnuzValues, bytes, count, out);
    case DType::kFloat8E5m2fnuz:
      return LookUp(kFloat8E5m2fnuzValues, bytes, count, out);
    case DType::kFloat8E8m0fnu:
      return LookUp(kFloat8E8m0fnuValues, bytes, count, out);
    default:
      break;
  }
}

}  // namespace msitd::compute
