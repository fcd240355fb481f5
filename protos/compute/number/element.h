// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "protos/base/dtype.h"

// Conversion to double one element at a time, for the blocks that the kernels
// cannot take at full speed.
namespace msitd::compute {

// The dtype whose elements the kernels see: the component of a complex one.
constexpr DType ComponentOf(DType dtype) {
  if (dtype == DType::kComplex32) return DType::kFloat16;
  if (dtype == DType::kComplex64) return DType::kFloat32;
  if (dtype == DType::kComplex128) return DType::kFloat64;
  return dtype;
}

// The dtype as which a kernel reads integers: that of the whole bytes that they
// occupy. Other dtypes are returned unchanged.
constexpr DType StoredAs(DType component) {
  const DTypeInfo& info = InfoOf(component);
  if (info.kind != DTypeKind::kInteger) return component;
  if (info.numpy == "i1") return DType::kInt8;
  if (info.numpy == "u1") return DType::kUint8;
  return info.numpy == "u2" ? DType::kUint16 : component;
}

// True if every value is exact in float.
constexpr bool FitsFloat(DType component) {
  switch (component) {
    case DType::kInt32:
    case DType::kInt64:
    case DType::kUint32:
    case DType::kUint64:
    case DType::kFloat64:
      return false;
    default:
      return true;
  }
}

// Writes `count` elements to `out` as double. `component` is not complex.
// Integers of 64 bits are rounded; a bool is 1 if any of its bits is set.
void ToDouble(DType component, const std::byte* bytes, size_t count,
              double* out);

}  // namespace msitd::compute
