// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace msitd {

// Element type of a tensor. The numbers are part of the chunk format and equal
// those of msitd.v1.DType; they are never reused.
enum class DType : uint8_t {
  kUnspecified = 0,
  kBool = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint8 = 6,
  kUint16 = 7,
  kUint32 = 8,
  kUint64 = 9,
  kFloat16 = 10,
  kBfloat16 = 11,
  kFloat32 = 12,
  kFloat64 = 13,
  kFloat8E4m3fn = 14,
  kFloat8E5m2 = 15,
  kComplex64 = 16,
  kComplex128 = 17,
};

inline constexpr int kDTypeCount = 18;

// Returns the size of one element in bytes, or 0 if `dtype` is none of the
// above.
constexpr uint32_t ElementBytes(DType dtype) {
  switch (dtype) {
    case DType::kBool:
    case DType::kInt8:
    case DType::kUint8:
    case DType::kFloat8E4m3fn:
    case DType::kFloat8E5m2:
      return 1;
    case DType::kInt16:
    case DType::kUint16:
    case DType::kFloat16:
    case DType::kBfloat16:
      return 2;
    case DType::kInt32:
    case DType::kUint32:
    case DType::kFloat32:
      return 4;
    case DType::kInt64:
    case DType::kUint64:
    case DType::kFloat64:
    case DType::kComplex64:
      return 8;
    case DType::kComplex128:
      return 16;
    case DType::kUnspecified:
      break;
  }
  return 0;
}

// True for a number that names an element type.
constexpr bool IsValid(DType dtype) { return ElementBytes(dtype) != 0; }

constexpr bool IsFloatingPoint(DType dtype) {
  return dtype >= DType::kFloat16 && dtype <= DType::kFloat8E5m2;
}

constexpr bool IsComplex(DType dtype) {
  return dtype == DType::kComplex64 || dtype == DType::kComplex128;
}

// Returns the name that torch uses, e.g. "bfloat16"; "unspecified" otherwise.
std::string_view DTypeName(DType dtype);

// The inverse of DTypeName; nothing for an unknown name.
std::optional<DType> ParseDType(std::string_view name);

}  // namespace msitd
