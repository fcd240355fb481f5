// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_names.h"

#include <fmt/format.h>

#include <iterator>
#include <string_view>

namespace msitd::formats {
namespace {

struct TypeRow {
  std::string_view name;
  DType dtype;
};

constexpr DType kNone = DType::kUnspecified;

// Indexed by the type numbers of GE dumps. Quantized integers are treated as
// their integers.
constexpr TypeRow kGeTypes[] = {
    {"UNDEFINED", DType::kInt8},
    {"FLOAT", DType::kFloat32},
    {"FLOAT16", DType::kFloat16},
    {"INT8", DType::kInt8},
    {"UINT8", DType::kUint8},
    {"INT16", DType::kInt16},
    {"UINT16", DType::kUint16},
    {"INT32", DType::kInt32},
    {"INT64", DType::kInt64},
    {"UINT32", DType::kUint32},
    {"UINT64", DType::kUint64},
    {"BOOL", DType::kBool},
    {"DOUBLE", DType::kFloat64},
    {"STRING", kNone},
    {"DUAL_SUB_INT8", kNone},
    {"DUAL_SUB_UINT8", kNone},
    {"COMPLEX64", DType::kComplex64},
    {"COMPLEX128", DType::kComplex128},
    {"QINT8", DType::kInt8},
    {"QINT16", DType::kInt16},
    {"QINT32", DType::kInt32},
    {"QUINT8", DType::kUint8},
    {"QUINT16", DType::kUint16},
    {"RESOURCE", kNone},
    {"STRING_REF", kNone},
    {"DUAL", kNone},
    {"VARIANT", kNone},
    {"BF16", DType::kBfloat16},
    {"INT4", DType::kInt4},
    {"UINT1", DType::kUint1},
    {"INT2", DType::kInt2},
    {"UINT2", DType::kUint2},
    {"COMPLEX32", DType::kComplex32},
    {"HIFLOAT8", DType::kHifloat8},
    {"FLOAT8_E5M2", DType::kFloat8E5m2},
    {"FLOAT8_E4M3FN", DType::kFloat8E4m3fn},
    {"FLOAT8_E8M0", DType::kFloat8E8m0fnu},
    {"FLOAT6_E3M2", DType::kFloat6E3m2fn},
    {"FLOAT6_E2M3", DType::kFloat6E2m3fn},
    {"FLOAT4_E2M1", DType::kFloat4E2m1fn},
    {"FLOAT4_E1M2", DType::kFloat4E1m2},
    {"HIFLOAT4", kNone},
    {"HIFLOAT4_SCALE", kNone},
};

struct NumberedType {
  int64_t number;
  TypeRow type;
};

constexpr NumberedType kAclTypes[] = {
    {0, {"FLOAT", DType::kFloat32}},
    {1, {"FLOAT16", DType::kFloat16}},
    {2, {"INT8", DType::kInt8}},
    {3, {"INT32", DType::kInt32}},
    {4, {"UINT8", DType::kUint8}},
    {6, {"INT16", DType::kInt16}},
    {7, {"UINT16", DType::kUint16}},
    {8, {"UINT32", DType::kUint32}},
    {9, {"INT64", DType::kInt64}},
    {10, {"UINT64", DType::kUint64}},
    {11, {"DOUBLE", DType::kFloat64}},
    {12, {"BOOL", DType::kBool}},
    {13, {"STRING", kNone}},
    {16, {"COMPLEX64", DType::kComplex64}},
    {17, {"COMPLEX128", DType::kComplex128}},
    {27, {"BF16", DType::kBfloat16}},
    {29, {"INT4", DType::kInt4}},
    {30, {"UINT1", DType::kUint1}},
    {31, {"INT2", DType::kInt2}},
    {32, {"UINT2", DType::kUint2}},
    {33, {"COMPLEX32", DType::kComplex32}},
    {34, {"HIFLOAT8", DType::kHifloat8}},
    {35, {"FLOAT8_E5M2", DType::kFloat8E5m2}},
    {36, {"FLOAT8_E4M3FN", DType::kFloat8E4m3fn}},
    {37, {"FLOAT8_E8M0", DType::kFloat8E8m0fnu}},
    {38, {"FLOAT6_E3M2", DType::kFloat6E3m2fn}},
    {39, {"FLOAT6_E2M3", DType::kFloat6E2m3fn}},
    {40, {"FLOAT4_E2M1", DType::kFloat4E2m1fn}},
    {41, {"FLOAT4_E1M2", DType::kFloat4E1m2}},
};

struct FormatRow {
  int64_t number;
  std::string_view name;
  bool is_plain;
};

constexpr FormatRow kFormats[] = {
    {kFormatNchw, "NCHW", true},
    {kFormatNhwc, "NHWC", true},
    {kFormatNd, "ND", true},
    {kFormatNc1hwc0, "NC1HWC0", false},
    {kFormatFractalZ, "FRACTAL_Z", false},
    {5, "NC1C0HWPAD", false},
    {6, "NHWC1C0", false},
    {7, "FSR_NCHW", false},
    {8, "FRACTAL_DECONV", false},
    {9, "C1HWNC0", false},
    {10, "FRACTAL_DECONV_TRANSPOSE", false},
    {11, "FRACTAL_DECONV_SP_STRIDE_TRANS", false},
    {kFormatNc1hwc0C04, "NC1HWC0_C04", false},
    {13, "FRACTAL_Z_C04", false},
    {14, "CHWN", true},
    {15, "DECONV_SP_STRIDE8_TRANS", false},
    {kFormatHwcn, "HWCN", true},
    {17, "NC1KHKWHWC0", false},
    {18, "BN_WEIGHT", false},
    {19, "FILTER_HWCK", false},
    {25, "C1HWNCoC0", false},
    {26, "MD", true},
    {27, "NDHWC", true},
    {28, "FRACTAL_ZZ", false},
    {kFormatFractalNz, "FRACTAL_NZ", false},
    {30, "NCDHW", true},
    {31, "DHWCN", true},
    {kFormatNdc1hwc0, "NDC1HWC0", false},
    {33, "FRACTAL_Z_3D", false},
    {34, "CN", true},
    {35, "NC", true},
    {36, "DHWNC", true},
    {37, "FRACTAL_Z_3D_TRANSPOSE", false},
    {38, "FRACTAL_ZN_LSTM", false},
    {39, "FRACTAL_Z_G", false},
    {43, "ND_RNN_BIAS", false},
    {44, "FRACTAL_ZN_RNN", false},
    {47, "NCL", true},
    {48, "FRACTAL_Z_WINO", false},
    {49, "C1HWC0", false},
    {kFormatFractalNzC016, "FRACTAL_NZ_C0_16", false},
    {kFormatFractalNzC032, "FRACTAL_NZ_C0_32", false},
};

const FormatRow* FormatOf(int64_t format) {
  for (const FormatRow& row : kFormats) {
    if (row.number == format) return &row;
  }
  return nullptr;
}

CannType UnknownType(int64_t number) {
  return {fmt::format("type {}", number), kNone};
}

}  // namespace

CannType GeTypeOf(int64_t number) {
  if (number < 0 || static_cast<size_t>(number) >= std::size(kGeTypes)) {
    return UnknownType(number);
  }
  const TypeRow& row = kGeTypes[number];
  return {std::string(row.name), row.dtype};
}

CannType AclTypeOf(int64_t number) {
  for (const NumberedType& row : kAclTypes) {
    if (row.number == number) {
      return {std::string(row.type.name), row.type.dtype};
    }
  }
  return UnknownType(number);
}

Packing CannPackingOf(DType dtype) {
  if (dtype == DType::kUint1) return Packing::kHighestFirst;
  return InfoOf(dtype).bits < 8 ? Packing::kLowestFirst : Packing::kNone;
}

std::string FormatName(int64_t format) {
  const FormatRow* const row = FormatOf(format);
  if (row == nullptr) return fmt::format("format {}", format);
  return std::string(row->name);
}

bool IsPlainFormat(int64_t format) {
  const FormatRow* const row = FormatOf(format);
  return row != nullptr && row->is_plain;
}

}  // namespace msitd::formats
