// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/stored_tensor.h"

#include <algorithm>

#include "client/foreign/formats/format_limits.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

// Strides and offsets are far below 2^64 in a valid file. A sum that exceeds
// this is out of range in any case.
constexpr unsigned __int128 kPlaceMax = uint64_t{1} << 62;

}  // namespace

uint64_t ElementCountOf(const std::vector<Axis>& axes) {
  uint64_t count = 1;
  for (const Axis& axis : axes) count *= axis.extent;
  return count;
}

uint32_t StoredBits(DType dtype, Packing packing) {
  return packing == Packing::kNone ? 8 * ElementBytes(dtype)
                                   : InfoOf(dtype).bits;
}

uint64_t StoredBytes(uint64_t elements, DType dtype, Packing packing) {
  if (packing == Packing::kNone) return elements * ElementBytes(dtype);
  return (elements * InfoOf(dtype).bits + 7) / 8;
}

std::vector<Axis> RowMajorAxes(const std::vector<int64_t>& shape) {
  std::vector<Axis> axes(shape.size());
  uint64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    axes[i].extent = static_cast<uint64_t>(shape[i]);
    axes[i].stride = stride;
    stride *= axes[i].extent;
  }
  return axes;
}

std::vector<Axis> ColumnMajorAxes(const std::vector<int64_t>& shape) {
  std::vector<Axis> axes(shape.size());
  uint64_t stride = 1;
  for (size_t i = 0; i < shape.size(); ++i) {
    axes[i].extent = static_cast<uint64_t>(shape[i]);
    axes[i].stride = stride;
    stride *= axes[i].extent;
  }
  return axes;
}

absl::Status CheckShape(DType dtype, const std::vector<int64_t>& shape) {
  if (shape.size() > kDimsMax) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "it has {} dimensions; the maximum is {}", shape.size(),
                      kDimsMax);
  }
  // Counts a dimension of 0 as 1, so that strides stay small too.
  unsigned __int128 bytes = ElementBytes(dtype);
  for (const int64_t dim : shape) {
    if (dim < 0) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "it has the dimension {}", dim);
    }
    bytes *= static_cast<uint64_t>(std::max<int64_t>(dim, 1));
    if (bytes > kTensorBytesMax) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "its shape has more than {} bytes", kTensorBytesMax);
    }
  }
  return absl::OkStatus();
}

absl::Status CheckPlace(const StoredTensor& tensor) {
  if (!tensor.source->Has(tensor.begin, tensor.bytes)) {
    const uint64_t size = tensor.source->size();
    return MakeStatus(absl::StatusCode::kDataLoss,
                      "the file is truncated: it has {} of {} bytes",
                      size - std::min(size, tensor.begin), tensor.bytes);
  }
  const uint64_t count = ElementCountOf(tensor.axes);
  if (count == 0) return absl::OkStatus();
  unsigned __int128 last = tensor.first_element;
  for (const Axis& axis : tensor.axes) {
    const uint64_t index = axis.extent - 1;
    // In blocks, the last element may not be the farthest one.
    const uint64_t in_block = std::min(index, axis.block - 1);
    last += static_cast<unsigned __int128>(index / axis.block) * axis.stride +
            static_cast<unsigned __int128>(in_block) * axis.block_stride;
    if (last > kPlaceMax) break;
  }
  const uint32_t bits = StoredBits(tensor.dtype, tensor.packing);
  if (last > kPlaceMax ||
      (last + 1) * bits > static_cast<unsigned __int128>(tensor.bytes) * 8) {
    return MakeStatus(
        absl::StatusCode::kDataLoss,
        "its shape and type require more than the {} stored bytes",
        tensor.bytes);
  }
  const uint64_t logical = count * ElementBytes(tensor.dtype);
  const uint64_t stored_elements = tensor.bytes * 8 / bits;
  if (count > stored_elements && logical > kRepeatedBytesMax) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "it repeats {} stored bytes to {}; the maximum is {}",
                      tensor.bytes, logical, kRepeatedBytesMax);
  }
  return absl::OkStatus();
}

bool IsRowMajor(const std::vector<Axis>& axes) {
  uint64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const Axis& axis = axes[i];
    if (axis.extent == 0) return true;
    if (axis.extent == 1) continue;
    // Consecutive blocks are equivalent to no blocks.
    const bool is_split = axis.block > 1;
    if (is_split && axis.block_stride != stride) return false;
    if (axis.extent > axis.block && axis.stride != stride * axis.block) {
      return false;
    }
    stride *= axis.extent;
  }
  return true;
}

}  // namespace msitd::formats
