// SPDX-License-Identifier: Apache-2.0
#include "client/msit/tensor/dequantize.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

#include "client/foreign/formats/stored_tensor.h"
#include "protos/base/rounding.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::msit_command {
namespace {

// Elements that are held as numbers at a time.
constexpr int64_t kBlock = 1 << 16;

constexpr DType kTaken[] = {DType::kInt8,     DType::kInt16,   DType::kInt32,
                            DType::kInt64,    DType::kUint8,   DType::kFloat16,
                            DType::kBfloat16, DType::kFloat32, DType::kFloat64};

// Returns the type in which torch computes with two tensors that have
// dimensions.
DType Common(DType a, DType b) {
  if (a == b) return a;
  if (IsFloatingPoint(a) != IsFloatingPoint(b))
    return IsFloatingPoint(a) ? a : b;
  const bool a_is_wider = ElementBytes(a) > ElementBytes(b);
  if (IsFloatingPoint(a)) {
    if (ElementBytes(a) == ElementBytes(b)) return DType::kFloat32;
    return a_is_wider ? a : b;
  }
  if (ElementBytes(a) == ElementBytes(b)) return DType::kInt16;  // int8, uint8
  return a_is_wider ? a : b;
}

// A tensor without dimensions does not widen one with dimensions, unless it is
// the only one with fractions.
DType Promoted(DType a, bool a_has_dims, DType b, bool b_has_dims) {
  if (a_has_dims == b_has_dims) return Common(a, b);
  const DType with_dims = a_has_dims ? a : b;
  const DType without = a_has_dims ? b : a;
  return IsFloatingPoint(without) && !IsFloatingPoint(with_dims) ? without
                                                                 : with_dims;
}

uint16_t HalfOf(float value) {
  const auto sign =
      static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16 & 0x8000);
  const double size = std::fabs(RoundTo(DType::kFloat16, value));
  if (std::isnan(size)) return sign | 0x7e00;
  if (std::isinf(size)) return sign | 0x7c00;
  // The bits of a half are those of the float that is smaller by 2^112.
  const auto bits =
      std::bit_cast<uint32_t>(static_cast<float>(size * 0x1p-112));
  return static_cast<uint16_t>(sign | bits >> 13);
}

uint16_t BfloatOf(float value) {
  const auto rounded = static_cast<float>(RoundTo(DType::kBfloat16, value));
  return static_cast<uint16_t>(std::bit_cast<uint32_t>(rounded) >> 16);
}

template <typename Stored>
void Put(Stored value, std::byte* out) {
  std::memcpy(out, &value, sizeof(value));
}

template <typename Integer>
void PutWrapped(double value, std::byte* out) {
  constexpr double kMost = 9223372036854774784.0;  // Below 2^63.
  const auto whole = static_cast<int64_t>(std::clamp(value, -kMost, kMost));
  Put(static_cast<Integer>(whole), out);
}

// Stores `value` rounded as in torch.
void PutElement(DType dtype, double value, std::byte* out) {
  switch (dtype) {
    case DType::kFloat64:
      return Put(value, out);
    case DType::kFloat32:
      return Put(static_cast<float>(value), out);
    case DType::kFloat16:
      return Put(HalfOf(static_cast<float>(value)), out);
    case DType::kBfloat16:
      return Put(BfloatOf(static_cast<float>(value)), out);
    case DType::kInt16:
      return PutWrapped<int16_t>(value, out);
    case DType::kInt32:
      return PutWrapped<int32_t>(value, out);
    case DType::kInt64:
      return PutWrapped<int64_t>(value, out);
    case DType::kUint8:
      return PutWrapped<uint8_t>(value, out);
    default:
      return PutWrapped<int8_t>(value, out);
  }
}

absl::StatusOr<std::vector<int64_t>> Broadcast(const std::vector<int64_t>& a,
                                               const std::vector<int64_t>& b) {
  std::vector<int64_t> out(std::max(a.size(), b.size()), 1);
  for (const auto* shape : {&a, &b}) {
    const size_t skipped = out.size() - shape->size();
    for (size_t d = 0; d < shape->size(); ++d) {
      const int64_t extent = (*shape)[d];
      int64_t& so_far = out[skipped + d];
      if (extent == 1 || extent == so_far) continue;
      if (so_far != 1) {
        return MakeStatus(absl::StatusCode::kInvalidArgument,
                          "{} and {} do not match", SizeText(a), SizeText(b));
      }
      so_far = extent;
    }
  }
  return out;
}

// One side of the operation, read row by row of the result.
class Operand {
 public:
  Operand(const Tensor& tensor, const std::vector<int64_t>& shape)
      : tensor_(tensor), strides_(shape.size(), 0) {
    const std::vector<int64_t> own = StridesOf(tensor.shape);
    const size_t skipped = shape.size() - own.size();
    for (size_t d = 0; d < own.size(); ++d) {
      if (tensor.shape[d] != 1) strides_[skipped + d] = own[d];
    }
  }

  // Returns the numbers of elements `first` to `first + count` of the row that
  // starts at index `at`; one number if all are the same.
  absl::StatusOr<std::vector<double>> Load(const std::vector<int64_t>& at,
                                           int64_t first, int64_t count) const {
    int64_t place = 0;
    for (size_t d = 0; d + 1 < at.size(); ++d) place += at[d] * strides_[d];
    const bool repeats = strides_.empty() || strides_.back() == 0;
    if (!repeats) place += first;
    const size_t element = ElementBytes(tensor_.dtype);
    return NumbersOf(
        tensor_.dtype,
        std::span(tensor_.bytes)
            .subspan(static_cast<size_t>(place) * element,
                     (repeats ? 1 : static_cast<size_t>(count)) * element));
  }

 private:
  const Tensor& tensor_;
  std::vector<int64_t> strides_;  // By dimension of the result.
};

// Iterates over all rows of `shape`, in blocks of at most kBlock elements.
template <typename Function>
absl::Status ForEachBlock(const std::vector<int64_t>& shape, Function visit) {
  if (ElementCount(shape) == 0) return absl::OkStatus();
  const int64_t row = shape.empty() ? 1 : shape.back();
  std::vector<int64_t> at(shape.size(), 0);
  for (;;) {
    for (int64_t first = 0; first < row; first += kBlock) {
      MSITD_RETURN_IF_ERROR(visit(at, first, std::min(kBlock, row - first)));
    }
    size_t d = shape.empty() ? 0 : shape.size() - 1;
    while (d > 0 && ++at[d - 1] == shape[d - 1]) at[--d] = 0;
    if (d == 0) return absl::OkStatus();
  }
}

template <typename Operation>
absl::StatusOr<Tensor> Combine(const Tensor& a, const Tensor& b,
                               Operation operation) {
  for (const Tensor* side : {&a, &b}) {
    if (std::find(std::begin(kTaken), std::end(kTaken), side->dtype) ==
        std::end(kTaken)) {
      return MakeStatus(absl::StatusCode::kUnimplemented,
                        "no dequantization of {} elements",
                        DTypeName(side->dtype));
    }
  }
  Tensor out;
  MSITD_ASSIGN_OR_RETURN(out.shape, Broadcast(a.shape, b.shape));
  out.dtype = Promoted(a.dtype, !a.shape.empty(), b.dtype, !b.shape.empty());
  MSITD_RETURN_IF_ERROR(formats::CheckShape(out.dtype, out.shape));
  const uint64_t element = ElementBytes(out.dtype);
  if (ElementCount(out.shape) > kViewedBytesMax / element) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "{} has more than {} bytes", SizeText(out.shape),
                      kViewedBytesMax);
  }
  out.bytes.resize(ElementCount(out.shape) * element);
  const Operand left(a, out.shape);
  const Operand right(b, out.shape);
  std::byte* place = out.bytes.data();
  MSITD_RETURN_IF_ERROR(ForEachBlock(
      out.shape,
      [&](const std::vector<int64_t>& at, int64_t first,
          int64_t count) -> absl::Status {
        MSITD_ASSIGN_OR_RETURN(const auto x, left.Load(at, first, count));
        MSITD_ASSIGN_OR_RETURN(const auto y, right.Load(at, first, count));
        const size_t x_step = x.size() == 1 ? 0 : 1;
        const size_t y_step = y.size() == 1 ? 0 : 1;
        for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
          PutElement(out.dtype, operation(x[i * x_step], y[i * y_step]), place);
          place += element;
        }
        return absl::OkStatus();
      }));
  return out;
}

}  // namespace

absl::StatusOr<Tensor> Dequantize(const Tensor& weight, const Tensor& offset,
                                  const Tensor& scale) {
  MSITD_ASSIGN_OR_RETURN(const Tensor moved,
                         Combine(weight, offset, std::minus<>()));
  return Combine(moved, scale, std::multiplies<>());
}

}  // namespace msitd::msit_command
