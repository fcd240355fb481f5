// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
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
  kInt1 = 18,
  kUint1 = 19,
  kInt2 = 20,
  kUint2 = 21,
  kInt4 = 22,
  kUint4 = 23,
  kFloat4E2m1fn = 24,
  kFloat4E1m2 = 25,
  kFloat6E2m3fn = 26,
  kFloat6E3m2fn = 27,
  kHifloat8 = 28,
  kFloat8E8m0fnu = 29,
  kComplex32 = 30,
  kFloat8E4m3fnuz = 31,
  kFloat8E5m2fnuz = 32,
  kInt3 = 33,
  kUint3 = 34,
  kInt5 = 35,
  kUint5 = 36,
  kInt6 = 37,
  kUint6 = 38,
  kInt7 = 39,
  kUint7 = 40,
  kBits8 = 41,
  kBits16 = 42,
  kBits1x8 = 43,
  kBits2x4 = 44,
  kBits4x2 = 45,
};

inline constexpr int kDTypeCount = 46;

enum class DTypeKind : uint8_t {
  kNone,
  kBool,
  kInteger,
  kFloat,
  kComplex,
};

// Properties of an element type. All code that depends on such a property uses
// this table; only the loaders of protos/compute have further knowledge.
struct DTypeInfo {
  // The torch name, or a name in the style of torch.
  std::string_view name;
  // The CANN name without `DT_`; empty if CANN does not have the type.
  std::string_view cann_name;
  // The NumPy type string of the elements: a kind and a number of bytes, such
  // as `f4`. For a type that NumPy does not have, a type that holds the bits.
  std::string_view numpy;
  DTypeKind kind = DTypeKind::kNone;
  // Number of significant bits of an element; for a complex type, of both parts
  // together.
  uint8_t bits = 0;
  // Size of an element in a tensor, in bytes. An element of fewer than 8 bits
  // occupies a byte and uses its lower bits; integers are sign-extended to the
  // whole byte.
  uint8_t bytes = 0;
  // Precision of a float in binary digits near 1, including the implicit digit;
  // for a complex type, of one part. 0 for all other types.
  uint8_t digits = 0;
  // True if the bits of floats, read as sign and magnitude, sort like the
  // values, so that the number of steps between neighbors can be counted.
  bool is_ordered = false;
};

// Indexed by the number of the dtype.
inline constexpr std::array<DTypeInfo, kDTypeCount> kDTypes = {{
    {"unspecified", "", "", DTypeKind::kNone},
    {"bool", "BOOL", "b1", DTypeKind::kBool, 8, 1},
    {"int8", "INT8", "i1", DTypeKind::kInteger, 8, 1},
    {"int16", "INT16", "i2", DTypeKind::kInteger, 16, 2},
    {"int32", "INT32", "i4", DTypeKind::kInteger, 32, 4},
    {"int64", "INT64", "i8", DTypeKind::kInteger, 64, 8},
    {"uint8", "UINT8", "u1", DTypeKind::kInteger, 8, 1},
    {"uint16", "UINT16", "u2", DTypeKind::kInteger, 16, 2},
    {"uint32", "UINT32", "u4", DTypeKind::kInteger, 32, 4},
    {"uint64", "UINT64", "u8", DTypeKind::kInteger, 64, 8},
    {"float16", "FLOAT16", "f2", DTypeKind::kFloat, 16, 2, 11, true},
    {"bfloat16", "BF16", "u2", DTypeKind::kFloat, 16, 2, 8, true},
    {"float32", "FLOAT", "f4", DTypeKind::kFloat, 32, 4, 24, true},
    {"float64", "DOUBLE", "f8", DTypeKind::kFloat, 64, 8, 53, true},
    {"float8_e4m3fn", "FLOAT8_E4M3FN", "u1", DTypeKind::kFloat, 8, 1, 4, true},
    {"float8_e5m2", "FLOAT8_E5M2", "u1", DTypeKind::kFloat, 8, 1, 3, true},
    {"complex64", "COMPLEX64", "c8", DTypeKind::kComplex, 64, 8, 24},
    {"complex128", "COMPLEX128", "c16", DTypeKind::kComplex, 128, 16, 53},
    {"int1", "", "i1", DTypeKind::kInteger, 1, 1},
    {"uint1", "UINT1", "u1", DTypeKind::kInteger, 1, 1},
    {"int2", "INT2", "i1", DTypeKind::kInteger, 2, 1},
    {"uint2", "UINT2", "u1", DTypeKind::kInteger, 2, 1},
    {"int4", "INT4", "i1", DTypeKind::kInteger, 4, 1},
    {"uint4", "", "u1", DTypeKind::kInteger, 4, 1},
    {"float4_e2m1fn", "FLOAT4_E2M1", "u1", DTypeKind::kFloat, 4, 1, 2},
    {"float4_e1m2", "FLOAT4_E1M2", "u1", DTypeKind::kFloat, 4, 1, 3},
    {"float6_e2m3fn", "FLOAT6_E2M3", "u1", DTypeKind::kFloat, 6, 1, 4},
    {"float6_e3m2fn", "FLOAT6_E3M2", "u1", DTypeKind::kFloat, 6, 1, 3},
    {"hifloat8", "HIFLOAT8", "u1", DTypeKind::kFloat, 8, 1, 4},
    {"float8_e8m0fnu", "FLOAT8_E8M0", "u1", DTypeKind::kFloat, 8, 1, 1},
    {"complex32", "COMPLEX32", "u4", DTypeKind::kComplex, 32, 4, 11},
    {"float8_e4m3fnuz", "", "u1", DTypeKind::kFloat, 8, 1, 4},
    {"float8_e5m2fnuz", "", "u1", DTypeKind::kFloat, 8, 1, 3},
    {"int3", "", "i1", DTypeKind::kInteger, 3, 1},
    {"uint3", "", "u1", DTypeKind::kInteger, 3, 1},
    {"int5", "", "i1", DTypeKind::kInteger, 5, 1},
    {"uint5", "", "u1", DTypeKind::kInteger, 5, 1},
    {"int6", "", "i1", DTypeKind::kInteger, 6, 1},
    {"uint6", "", "u1", DTypeKind::kInteger, 6, 1},
    {"int7", "", "i1", DTypeKind::kInteger, 7, 1},
    {"uint7", "", "u1", DTypeKind::kInteger, 7, 1},
    {"bits8", "", "u1", DTypeKind::kInteger, 8, 1},
    {"bits16", "", "u2", DTypeKind::kInteger, 16, 2},
    {"bits1x8", "", "u1", DTypeKind::kInteger, 8, 1},
    {"bits2x4", "", "u1", DTypeKind::kInteger, 8, 1},
    {"bits4x2", "", "u1", DTypeKind::kInteger, 8, 1},
}};

// Returns the properties of `dtype`; those of kUnspecified for an unknown
// number.
constexpr const DTypeInfo& InfoOf(DType dtype) {
  const auto number = static_cast<size_t>(dtype);
  return kDTypes[number < kDTypes.size() ? number : 0];
}

// Returns the size of an element in a tensor, in bytes; 0 for kUnspecified or
// an unknown number.
constexpr uint32_t ElementBytes(DType dtype) { return InfoOf(dtype).bytes; }

// True if the number is a valid element type.
constexpr bool IsValid(DType dtype) { return ElementBytes(dtype) != 0; }

constexpr bool IsFloatingPoint(DType dtype) {
  return InfoOf(dtype).kind == DTypeKind::kFloat;
}

constexpr bool IsComplex(DType dtype) {
  return InfoOf(dtype).kind == DTypeKind::kComplex;
}

// Returns DTypeInfo::name, such as "bfloat16"; "unspecified" for an unknown
// number.
constexpr std::string_view DTypeName(DType dtype) { return InfoOf(dtype).name; }

// Inverse of DTypeName; nothing for an unknown name.
std::optional<DType> ParseDType(std::string_view name);

}  // namespace msitd
