// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "client/foreign/formats/stored_tensor.h"
#include "protos/base/dtype.h"

// CANN's numbers for types and formats.
namespace msitd::formats {

struct CannType {
  // The name that CANN writes, without `DT_`. "type 77" for an unknown number.
  std::string name;
  // kUnspecified if msitd does not support such elements.
  DType dtype = DType::kUnspecified;
};

// Returns the type for a number in GE dumps. 0, undefined, is treated as bytes.
CannType GeTypeOf(int64_t number);

// Returns the type for a number of ACL, which ATB uses.
CannType AclTypeOf(int64_t number);

// Returns how CANN packs elements of this type.
Packing CannPackingOf(DType dtype);

// Formats. They are the same in all parts of CANN.
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

// Returns true if a tensor in this format is not divided into blocks, so that
// its shape is that of its elements.
bool IsPlainFormat(int64_t format);

}  // namespace msitd::formats
