// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace msitd::libmsit {

// Copies the elements [first, first + count) of a tensor, in row-major order,
// to `out` without gaps. `data` is the element with index 0 in every dimension,
// `byte_strides` has as many entries as `dims`, `element_bytes` is 1, 2, 4, 8
// or 16, and the range must lie inside the tensor.
void CopyStrided(const std::byte* data, std::span<const int64_t> dims,
                 std::span<const int64_t> byte_strides, uint32_t element_bytes,
                 uint64_t first, uint64_t count, std::byte* out);

// Returns whether the elements of the tensor are stored in row-major order
// without gaps.
bool IsContiguous(std::span<const int64_t> dims,
                  std::span<const int64_t> byte_strides,
                  uint32_t element_bytes);

}  // namespace msitd::libmsit
