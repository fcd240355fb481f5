// SPDX-License-Identifier: Apache-2.0
#include "client/msit/tensor/tensor.h"

#include <fmt/format.h>

#include <cstring>
#include <span>

#include "client/foreign/formats/tensor_file.h"
#include "protos/base/shape.h"
#include "protos/compute/number/element.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

absl::StatusOr<Tensor> ReadOne(formats::TensorFile& file) {
  if (file.tensor_count() != 1) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "it has {} tensors, not one", file.tensor_count());
  }
  return ReadTensorAt(file, 0);
}

}  // namespace

absl::StatusOr<Tensor> ReadTensorAt(formats::TensorFile& file, size_t number) {
  const formats::ForeignTensor* found = file.GoTo(number);
  MSITD_RETURN_IF_ERROR(found->problem);
  if (found->bytes > kViewedBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "its tensor has {} bytes; the maximum is {}",
                      found->bytes, kViewedBytesMax);
  }
  Tensor tensor{found->dtype, found->shape, {}};
  tensor.bytes.resize(found->bytes);
  std::span<std::byte> left = tensor.bytes;
  while (left.size() >= 16) {
    MSITD_ASSIGN_OR_RETURN(const size_t read, file.Read(left));
    if (read == 0) break;
    left = left.subspan(read);
  }
  // Read requires room for the largest element.
  std::byte last[16];
  while (!left.empty()) {
    MSITD_ASSIGN_OR_RETURN(const size_t read, file.Read(last));
    if (read == 0 || read > left.size()) break;
    std::memcpy(left.data(), last, read);
    left = left.subspan(read);
  }
  if (!left.empty()) {
    return MakeStatus(absl::StatusCode::kDataLoss, "its elements end early");
  }
  return tensor;
}

absl::StatusOr<Tensor> ReadTensor(const std::string& path) {
  auto file = formats::OpenTensorFile(path, {});
  if (!file.ok()) return Annotate(file.status(), path);
  auto tensor = ReadOne(**file);
  if (!tensor.ok()) return Annotate(tensor.status(), path);
  return tensor;
}

Tensor Gather(const Tensor& tensor, int64_t first,
              const std::vector<ViewedAxis>& axes) {
  Tensor out{tensor.dtype, {}, {}};
  for (const ViewedAxis& axis : axes) out.shape.push_back(axis.extent);
  const size_t element = ElementBytes(tensor.dtype);
  const uint64_t count = ElementCount(out.shape);
  out.bytes.resize(count * element);
  std::vector<int64_t> at(axes.size(), 0);
  int64_t from = first;
  for (uint64_t i = 0; i < count; ++i) {
    std::memcpy(out.bytes.data() + i * element,
                tensor.bytes.data() + static_cast<size_t>(from) * element,
                element);
    for (size_t d = axes.size(); d-- > 0;) {
      from += axes[d].stride;
      if (++at[d] < axes[d].extent) break;
      from -= axes[d].extent * axes[d].stride;
      at[d] = 0;
    }
  }
  return out;
}

absl::StatusOr<Tensor> Join(const std::vector<Tensor>& pieces, size_t dim) {
  Tensor out;
  uint64_t bytes = 0;
  for (const Tensor& piece : pieces) {
    if (&piece == &pieces.front()) {
      out = {piece.dtype, piece.shape, {}};
    } else if (dim < out.shape.size() && dim < piece.shape.size()) {
      out.shape[dim] += piece.shape[dim];
    }
    std::vector<int64_t> shape = piece.shape;
    if (dim < shape.size()) shape[dim] = out.shape[dim];
    if (dim >= shape.size() || shape != out.shape || piece.dtype != out.dtype) {
      return MakeStatus(absl::StatusCode::kInvalidArgument,
                        "its pieces do not fit together");
    }
    bytes += piece.bytes.size();
  }
  if (bytes > kViewedBytesMax || pieces.empty()) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "its pieces have {} bytes; the maximum is {}", bytes,
                      kViewedBytesMax);
  }
  const uint64_t rows = ElementCount(std::span(out.shape).first(dim));
  out.bytes.reserve(bytes);
  for (uint64_t row = 0; row < rows && bytes > 0; ++row) {
    for (const Tensor& piece : pieces) {
      const size_t row_bytes = piece.bytes.size() / rows;
      const auto begin =
          piece.bytes.begin() + static_cast<ptrdiff_t>(row * row_bytes);
      out.bytes.insert(out.bytes.end(), begin,
                       begin + static_cast<ptrdiff_t>(row_bytes));
    }
  }
  return out;
}

std::vector<int64_t> StridesOf(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t d = shape.size(); d-- > 1;) {
    strides[d - 1] = strides[d] * shape[d];
  }
  return strides;
}

absl::StatusOr<std::vector<double>> NumbersOf(const Tensor& tensor) {
  return NumbersOf(tensor.dtype, tensor.bytes);
}

absl::StatusOr<std::vector<double>> NumbersOf(
    DType dtype, std::span<const std::byte> bytes) {
  // The others have larger numbers.
  if (!IsValid(dtype) || dtype > DType::kFloat64) {
    return MakeStatus(absl::StatusCode::kUnimplemented,
                      "no statistics of {} elements", DTypeName(dtype));
  }
  std::vector<double> out(bytes.size() / ElementBytes(dtype));
  compute::ToDouble(dtype, bytes.data(), out.size(), out.data());
  return out;
}

std::string SizeText(const std::vector<int64_t>& shape) {
  return fmt::format("torch.Size([{}])", fmt::join(shape, ", "));
}

}  // namespace msitd::msit_command
