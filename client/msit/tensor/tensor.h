// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "protos/base/dtype.h"

namespace msitd::formats {
class TensorFile;
}  // namespace msitd::formats

namespace msitd::msit_command {

// A larger tensor is rejected, because it is held in memory, twice while it is
// permuted.
inline constexpr uint64_t kViewedBytesMax = uint64_t{8} << 30;

// A tensor in memory, in row-major order without gaps.
struct Tensor {
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

// Reads a file with one tensor, of a kind that client/foreign/formats supports.
// Returns INVALID_ARGUMENT if it has none or several, RESOURCE_EXHAUSTED beyond
// kViewedBytesMax, or the error of reading the file. Errors name `path`.
absl::StatusOr<Tensor> ReadTensor(const std::string& path);

// Reads the tensor with this number, counted from 0, of an open file. Returns
// the same errors, without a path.
absl::StatusOr<Tensor> ReadTensorAt(formats::TensorFile& file, size_t number);

// One dimension of a view of a tensor.
struct ViewedAxis {
  int64_t extent = 0;
  int64_t stride = 0;  // In elements.
};

// Copies the elements of `tensor` at `first` plus a multiple of the stride of
// each axis. All of them are within the tensor.
Tensor Gather(const Tensor& tensor, int64_t first,
              const std::vector<ViewedAxis>& axes);

// Joins tensors along a dimension. Returns INVALID_ARGUMENT if their types or
// other dimensions differ, or if there are none, and RESOURCE_EXHAUSTED beyond
// kViewedBytesMax.
absl::StatusOr<Tensor> Join(const std::vector<Tensor>& pieces, size_t dim);

// Strides in elements.
std::vector<int64_t> StridesOf(const std::vector<int64_t>& shape);

// Returns the elements as numbers; a bool is 0 or 1. Integers beyond 2^53 are
// rounded. Returns UNIMPLEMENTED for complex numbers and types that torch
// cannot compute with.
absl::StatusOr<std::vector<double>> NumbersOf(const Tensor& tensor);
// The same for elements of any part of a tensor.
absl::StatusOr<std::vector<double>> NumbersOf(DType dtype,
                                              std::span<const std::byte> bytes);

// "torch.Size([2, 3])".
std::string SizeText(const std::vector<int64_t>& shape);

}  // namespace msitd::msit_command
