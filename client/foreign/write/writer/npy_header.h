// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protos/base/dtype.h"

namespace msitd::write {

// The header of a .npy file, which precedes the bytes of the tensor.
struct NpyHeader {
  // Magic number, version 1.0, length and dictionary; a multiple of 64 bytes.
  std::string bytes;
  // The type in the file if numpy has no such dtype, as for bfloat16 and the
  // 8-bit floats: "uint16", "|V1". Empty if numpy has it.
  std::string stored_as;
};

// The type that represents one that numpy cannot name.
enum class NpySubstitute : uint8_t {
  kInteger,  // The unsigned integer of the same size; int8 for the bits of an
             // integer.
  kVoid,     // `|V1` and `<V2`, as numpy writes types of ml_dtypes.
};

// `dtype` is valid. The bytes after the header are row-major and little-endian.
NpyHeader MakeNpyHeader(DType dtype, const std::vector<int64_t>& shape,
                        NpySubstitute substitute = NpySubstitute::kInteger);

}  // namespace msitd::write
