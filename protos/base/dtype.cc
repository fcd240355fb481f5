// SPDX-License-Identifier: Apache-2.0
#include "protos/base/dtype.h"

#include <array>

namespace msitd {
namespace {

constexpr std::array<std::string_view, kDTypeCount> kNames = {
    "unspecified", "bool",      "int8",       "int16",   "int32",
    "int64",       "uint8",     "uint16",     "uint32",  "uint64",
    "float16",     "bfloat16",  "float32",    "float64", "float8_e4m3fn",
    "float8_e5m2", "complex64", "complex128",
};

}  // namespace

std::string_view DTypeName(DType dtype) {
  const auto number = static_cast<size_t>(dtype);
  return number < kNames.size() ? kNames[number] : kNames[0];
}

std::optional<DType> ParseDType(std::string_view name) {
  for (size_t i = 1; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<DType>(i);
  }
  return std::nullopt;
}

}  // namespace msitd
