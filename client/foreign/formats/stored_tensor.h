// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/formats/byte_source.h"
#include "protos/base/dtype.h"

// Where the elements of a tensor lie in a file, and how.
namespace msitd::formats {

// One dimension of a tensor. The element with index `i` in it lies
// `i / block * stride + i % block * block_stride` elements behind that with
// index 0. Most dimensions are not in blocks: `block` is 1.
struct Axis {
  uint64_t extent = 0;
  uint64_t stride = 0;
  uint64_t block = 1;
  uint64_t block_stride = 0;
};

// How elements of fewer than 8 bits share bytes.
enum class Packing : uint8_t {
  kNone,          // A byte for each.
  kLowestFirst,   // The first element has the lowest bits of the first byte.
  kHighestFirst,  // The first element has the highest ones.
};

struct StoredTensor {
  std::shared_ptr<const ByteSource> source;
  // Where its bytes begin in `source`, and how many of them belong to it.
  uint64_t begin = 0;
  uint64_t bytes = 0;
  DType dtype = DType::kUnspecified;
  Packing packing = Packing::kNone;
  bool is_big_endian = false;
  // The element with all indexes 0, and its dimensions from the outermost on.
  uint64_t first_element = 0;
  std::vector<Axis> axes;
};

// Returns how many elements a tensor with these dimensions has. CheckShape has
// seen them.
uint64_t ElementCountOf(const std::vector<Axis>& axes);

// How many bytes `elements` take as they are stored. `elements` is at most
// kTensorBytesMax.
uint64_t StoredBytes(uint64_t elements, DType dtype, Packing packing);

// Returns how many bits an element takes as it is stored.
uint32_t StoredBits(DType dtype, Packing packing);

// The axes of a tensor whose elements lie in row-major order. No dimension is
// negative, and CheckShape has seen them.
std::vector<Axis> RowMajorAxes(const std::vector<int64_t>& shape);

// The same for column-major order.
std::vector<Axis> ColumnMajorAxes(const std::vector<int64_t>& shape);

// Checks that msitd can hold a tensor of this type and shape: no dimension is
// negative, and it keeps kDimsMax and kTensorBytesMax. INVALID_ARGUMENT.
absl::Status CheckShape(DType dtype, const std::vector<int64_t>& shape);

// Checks that all elements lie inside of `bytes`, and `bytes` inside of the
// source. DATA_LOSS if not; INVALID_ARGUMENT if it repeats elements beyond
// kRepeatedBytesMax. CheckShape has seen the extents.
absl::Status CheckPlace(const StoredTensor& tensor);

// True if the elements lie in row-major order, without gaps.
bool IsRowMajor(const std::vector<Axis>& axes);

}  // namespace msitd::formats
