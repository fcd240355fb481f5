// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace msitd {

// Returns the number of elements of a tensor with these dimensions, which must
// not be negative; 1 for a scalar. Computed modulo 2^64, which no tensor with
// elements reaches.
template <typename Shape>
uint64_t ElementCount(const Shape& shape) {
  uint64_t count = 1;
  for (const int64_t dim : shape) count *= static_cast<uint64_t>(dim);
  return count;
}

}  // namespace msitd
