// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "protos/base/dtype.h"

namespace msitd::ctl {

// What comes before the bytes of a tensor in a .npy file.
struct NpyHeader {
  // Magic, version 1.0, length and dictionary; a multiple of 64 bytes.
  std::string bytes;
  // The unsigned integer type that the file names if numpy has no such dtype,
  // as for bfloat16 and the 8-bit floats. Empty if numpy has it.
  std::string stored_as;
};

// `dtype` is valid. The bytes behind the header are row-major, little-endian.
NpyHeader MakeNpyHeader(DType dtype, const std::vector<int64_t>& shape);

}  // namespace msitd::ctl
