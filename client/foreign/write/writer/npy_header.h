// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protos/base/dtype.h"

namespace msitd::write {

// What comes before the bytes of a tensor in a .npy file.
struct NpyHeader {
  // Magic, version 1.0, length and dictionary; a multiple of 64 bytes.
  std::string bytes;
  // The type that the file names if numpy has no such dtype, as for bfloat16
  // and the 8-bit floats: "uint16", "|V1". Empty if numpy has it.
  std::string stored_as;
};

// What stands for a type that numpy cannot name.
enum class NpySubstitute : uint8_t {
  kInteger,  // The unsigned integer of its size; bits of an integer in int8.
  kVoid,     // `|V1` and `<V2`, as numpy writes what ml_dtypes adds to it.
};

// `dtype` is valid. The bytes behind the header are row-major, little-endian.
NpyHeader MakeNpyHeader(DType dtype, const std::vector<int64_t>& shape,
                        NpySubstitute substitute = NpySubstitute::kInteger);

}  // namespace msitd::write
