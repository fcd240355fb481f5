// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/formats/byte_source.h"
#include "protos/base/dtype.h"

// The location and arrangement of the elements of a tensor in a file.
namespace msitd::formats {

// One dimension of a tensor. The element with index `i` is `i / block * stride
// + i % block * block_stride` elements after the element with index 0. Most
// dimensions are not in blocks: `block` is 1.
struct Axis {
  uint64_t extent = 0;
  uint64_t stride = 0;
  uint64_t block = 1;
  uint64_t block_stride = 0;
};

// How elements of fewer than 8 bits share bytes.
enum class Packing : uint8_t {
  kNone,          // One byte for each element.
  kLowestFirst,   // The first element has the lowest bits of the first byte.
  kHighestFirst,  // The first element has the highest ones.
};

struct StoredTensor {
  std::shared_ptr<const ByteSource> source;
  // The offset of its bytes in `source`, and their number.
  uint64_t begin = 0;
  uint64_t bytes = 0;
  DType dtype = DType::kUnspecified;
  Packing packing = Packing::kNone;
  bool is_big_endian = false;
  // The index of the element with all indexes 0, and the dimensions from the
  // outermost one.
  uint64_t first_element = 0;
  std::vector<Axis> axes;
};

// Returns the number of elements of a tensor with these dimensions. CheckShape
// has accepted them.
uint64_t ElementCountOf(const std::vector<Axis>& axes);

// Returns the number of bytes in which `elements` are stored. `elements` is at
// most kTensorBytesMax.
uint64_t StoredBytes(uint64_t elements, DType dtype, Packing packing);

// Returns the number of bits in which an element is stored.
uint32_t StoredBits(DType dtype, Packing packing);

// Returns the axes of a tensor whose elements are in row-major order. No
// dimension is negative, and CheckShape has accepted them.
std::vector<Axis> RowMajorAxes(const std::vector<int64_t>& shape);

// The same for column-major order.
std::vector<Axis> ColumnMajorAxes(const std::vector<int64_t>& shape);

// Checks that msitd can store a tensor of this type and shape: no dimension is
// negative, and it does not exceed kDimsMax and kTensorBytesMax. Returns
// INVALID_ARGUMENT otherwise.
absl::Status CheckShape(DType dtype, const std::vector<int64_t>& shape);

// Checks that all elements are within `bytes`, and `bytes` within the source.
// Returns DATA_LOSS if not, and INVALID_ARGUMENT if the tensor repeats elements
// beyond kRepeatedBytesMax. CheckShape has accepted the extents.
absl::Status CheckPlace(const StoredTensor& tensor);

// Returns true if the elements are in row-major order, without gaps.
bool IsRowMajor(const std::vector<Axis>& axes);

}  // namespace msitd::formats
