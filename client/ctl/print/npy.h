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
  // The type that stands in the file if numpy has no such dtype: bfloat16 and
  // the 8-bit floats are stored as unsigned integers. Empty if it has.
  std::string stored_as;
};

// `dtype` is valid. The bytes that follow are row-major and little-endian.
NpyHeader MakeNpyHeader(DType dtype, const std::vector<int64_t>& shape);

}  // namespace msitd::ctl
