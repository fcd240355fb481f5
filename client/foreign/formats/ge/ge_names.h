// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "client/foreign/formats/stored_tensor.h"
#include "protos/base/dtype.h"

// The numbers that CANN has for types and formats.
namespace msitd::formats {

struct CannType {
  // As CANN writes it, without `DT_`; "type 77" for an unknown number.
  std::string name;
  // kUnspecified if msitd has no such elements.
  DType dtype = DType::kUnspecified;
};

// The type with a number of GE dumps. 0, undefined, is taken as bytes.
CannType GeTypeOf(int64_t number);

// The type with a number of ACL, which ATB uses.
CannType AclTypeOf(int64_t number);

// How CANN packs elements of this type.
Packing CannPackingOf(DType dtype);

// Formats, the same in all of CANN.
inline constexpr int64_t kFormatNchw = 0;
inline constexpr int64_t kFormatNhwc = 1;
inline constexpr int64_t kFormatNd = 2;
inline constexpr int64_t kFormatNc1hwc0 = 3;
inline constexpr int64_t kFormatFractalZ = 4;
inline constexpr int64_t kFormatNc1hwc0C04 = 12;
inline constexpr int64_t kFormatHwcn = 16;
inline constexpr int64_t kFormatFractalNz = 29;
inline constexpr int64_t kFormatNdc1hwc0 = 32;
inline constexpr int64_t kFormatFractalNzC016 = 50;
inline constexpr int64_t kFormatFractalNzC032 = 51;

// Returns a name such as "FRACTAL_NZ"; "format 99" for an unknown number.
std::string FormatName(int64_t format);

// True if the shape of a tensor in this format is that of its elements, so that
// nothing is cut into blocks.
bool IsPlainFormat(int64_t format);

}  // namespace msitd::formats
