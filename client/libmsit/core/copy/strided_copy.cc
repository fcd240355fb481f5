// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/copy/strided_copy.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "protos/base/check.h"
#include "protos/base/limits.h"

namespace msitd::libmsit {
namespace {

// Dimensions of a tensor without those of length 1, and with adjacent
// dimensions merged if a single stride covers them. A contiguous tensor has one
// dimension or none.
struct Walk {
  std::array<uint64_t, kDimsMax> dims;
  std::array<int64_t, kDimsMax> strides;
  size_t count = 0;
};

Walk MergeDims(std::span<const int64_t> dims,
               std::span<const int64_t> byte_strides) {
  Walk walk;
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] == 1) continue;
    const auto dim = static_cast<uint64_t>(dims[i]);
    if (walk.count > 0 &&
        walk.strides[walk.count - 1] == byte_strides[i] * dims[i]) {
      walk.dims[walk.count - 1] *= dim;
      walk.strides[walk.count - 1] = byte_strides[i];
      continue;
    }
    walk.dims[walk.count] = dim;
    walk.strides[walk.count] = byte_strides[i];
    ++walk.count;
  }
  return walk;
}

template <size_t kBytes>
void CopyElements(const std::byte* from, int64_t stride, uint64_t count,
                  std::byte* out) {
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(out, from, kBytes);
    out += kBytes;
    from += stride;
  }
}

void CopyRow(const std::byte* from, int64_t stride, uint32_t element_bytes,
             uint64_t count, std::byte* out) {
  if (stride == static_cast<int64_t>(element_bytes)) {
    std::memcpy(out, from, count * element_bytes);
    return;
  }
  switch (element_bytes) {
    case 1:
      return CopyElements<1>(from, stride, count, out);
    case 2:
      return CopyElements<2>(from, stride, count, out);
    case 4:
      return CopyElements<4>(from, stride, count, out);
    case 8:
      return CopyElements<8>(from, stride, count, out);
    default:
      return CopyElements<16>(from, stride, count, out);
  }
}

}  // namespace

bool IsContiguous(std::span<const int64_t> dims,
                  std::span<const int64_t> byte_strides,
                  uint32_t element_bytes) {
  const Walk walk = MergeDims(dims, byte_strides);
  return walk.count == 0 ||
         (walk.count == 1 &&
          walk.strides[0] == static_cast<int64_t>(element_bytes));
}

// Iterates over the merged dimensions like an odometer. `row` points to the
// first element of the current innermost row. Each iteration copies the
// requested elements of that row and then advances the outer indices, the last
// one fastest.
void CopyStrided(const std::byte* data, std::span<const int64_t> dims,
                 std::span<const int64_t> byte_strides, uint32_t element_bytes,
                 uint64_t first, uint64_t count, std::byte* out) {
  MSITD_CHECK(dims.size() <= kDimsMax && byte_strides.size() == dims.size());
  if (count == 0) return;
  Walk walk = MergeDims(dims, byte_strides);
  if (walk.count == 0) {
    walk.dims[0] = 1;
    walk.strides[0] = element_bytes;
    walk.count = 1;
  }
  const size_t inner = walk.count - 1;
  std::array<uint64_t, kDimsMax> position{};
  const std::byte* row = data;
  for (size_t i = walk.count; i-- > 0;) {
    position[i] = first % walk.dims[i];
    first /= walk.dims[i];
    if (i != inner) {
      row += static_cast<int64_t>(position[i]) * walk.strides[i];
    }
  }
  while (true) {
    const uint64_t column = position[inner];
    const uint64_t n = std::min(count, walk.dims[inner] - column);
    CopyRow(row + static_cast<int64_t>(column) * walk.strides[inner],
            walk.strides[inner], element_bytes, n, out);
    count -= n;
    if (count == 0) return;
    out += n * element_bytes;
    position[inner] = 0;
    for (size_t i = inner; i-- > 0;) {
      row += walk.strides[i];
      if (++position[i] < walk.dims[i]) break;
      row -= static_cast<int64_t>(walk.dims[i]) * walk.strides[i];
      position[i] = 0;
    }
  }
}

}  // namespace msitd::libmsit
