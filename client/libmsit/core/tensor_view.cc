// SPDX-License-Identifier: Apache-2.0
#include "client/libmsit/core/tensor_view.h"

#include <limits>
#include <string>

#include "client/libmsit/core/token_reference.h"
#include "protos/base/limits.h"
#include "protos/base/placement.h"
#include "protos/base/tensor_statistics.h"
#include "protos/base/utf8.h"

namespace msitd::libmsit {
namespace {

Status OutOfRange(std::string_view what, int64_t value, int64_t max) {
  return InvalidArgument(std::string(what) + " " + std::to_string(value) +
                         " is not in 0.." + std::to_string(max));
}

Status CheckShape(const TensorView& tensor, uint64_t* tensor_bytes) {
  if (tensor.dims.size() > kDimsMax) {
    return OutOfRange("the number of dimensions",
                      static_cast<int64_t>(tensor.dims.size()), kDimsMax);
  }
  uint64_t bytes = ElementBytes(tensor.dtype);
  bool is_empty = false;
  bool overflow = false;
  for (const int64_t dim : tensor.dims) {
    if (dim < 0) {
      return InvalidArgument("a dimension is " + std::to_string(dim));
    }
    if (dim == 0) {
      is_empty = true;
      continue;
    }
    overflow |=
        __builtin_mul_overflow(bytes, static_cast<uint64_t>(dim), &bytes);
    overflow |= bytes > kTensorBytesMax;
  }
  if (overflow && !is_empty) {
    return InvalidArgument("the tensor is larger than " +
                           std::to_string(kTensorBytesMax) + " bytes");
  }
  const bool has_bytes = tensor.kind != RecordKind::kStatistics;
  *tensor_bytes = is_empty || !has_bytes ? 0 : bytes;
  const bool may_be_known =
      tensor.kind == RecordKind::kTensor && tensor.identity != 0;
  if (tensor.data == nullptr && tensor.source == nullptr &&
      !tensor.comes_later && *tensor_bytes != 0 && !may_be_known) {
    return InvalidArgument("data is null");
  }
  return {};
}

bool IsNumberType(DType dtype) {
  return dtype == DType::kBool || dtype == DType::kInt64 ||
         dtype == DType::kFloat64 || dtype == DType::kComplex128;
}

Status CheckStatistics(std::string_view text) {
  Status status = CheckName("value", text, kValueBytesMax, false);
  if (!status.ok() || ParseTensorStatistics(text).has_value()) return status;
  return InvalidArgument(
      "the statistics are not like {\"max\": 1.5, \"mean\": \"nan\"}");
}

Status CheckKind(const TensorView& tensor) {
  constexpr uint32_t kAnyLength = std::numeric_limits<uint32_t>::max();
  if (!IsValid(tensor.kind)) {
    return InvalidArgument(
        "kind " + std::to_string(int{static_cast<uint8_t>(tensor.kind)}) +
        " is unknown");
  }
  if (tensor.source != nullptr &&
      (tensor.kind != RecordKind::kTensor || !tensor.byte_strides.empty())) {
    return InvalidArgument("only tensors in row-major order can have a source");
  }
  if (tensor.comes_later && tensor.kind != RecordKind::kTensor) {
    return InvalidArgument("only the bytes of tensors may follow later");
  }
  Status status = CheckName("stack", tensor.stack, kAnyLength, true);
  if (!status.ok()) return status;
  if (IsValue(tensor.kind)) {
    status = CheckName("value", tensor.value, kAnyLength,
                       tensor.kind == RecordKind::kText);
  } else if (tensor.kind == RecordKind::kStatistics) {
    status = CheckStatistics(tensor.value);
  } else if (!tensor.value.empty()) {
    status = InvalidArgument("only values and statistics can have a value");
  }
  if (status.ok() && tensor.kind == RecordKind::kNumber &&
      (!tensor.dims.empty() || !IsNumberType(tensor.dtype))) {
    status = InvalidArgument(
        "a number is a scalar of dtype bool, int64, float64 or complex128");
  }
  if (status.ok() && tensor.kind == RecordKind::kDocument &&
      (tensor.dims.size() != 1 || !tensor.byte_strides.empty())) {
    status = InvalidArgument("a document has one dimension and no strides");
  }
  return status;
}

// Checks a document whose shape is valid.
Status CheckDocumentText(const TensorView& tensor, uint64_t bytes) {
  if (bytes == 0) return {};
  const std::string_view text(reinterpret_cast<const char*>(tensor.data),
                              bytes);
  if (IsValidUtf8(text)) return {};
  return InvalidArgument("the document is not UTF-8 text");
}

Status CheckPlacement(std::string_view placement) {
  if (placement.empty() || ParsePlacement(placement).has_value()) return {};
  return InvalidArgument(
      "placement is not like 0+2x4/4x1:R,S(0), or its ranks do not form a "
      "mesh");
}

}  // namespace

Status CheckName(std::string_view what, std::string_view name,
                 uint32_t bytes_max, bool may_be_empty) {
  if (name.size() > bytes_max) {
    return InvalidArgument(
        std::string(what) + " is " + std::to_string(name.size()) +
        " bytes long, at most " + std::to_string(bytes_max) + " may be");
  }
  if (name.empty() && !may_be_empty) {
    return InvalidArgument(std::string(what) + " is empty");
  }
  if (name.find('\0') != std::string_view::npos || !IsValidUtf8(name)) {
    return InvalidArgument(std::string(what) +
                           " is not UTF-8 text without NUL");
  }
  return {};
}

void CompleteForKind(TensorView& tensor) {
  static constexpr int64_t kNoElements[] = {0};
  if (tensor.kind == RecordKind::kDocument) {
    tensor.io = Io::kState;
    tensor.index = {};
    tensor.dtype = DType::kUint8;
  } else if (IsTextOnly(tensor.kind)) {
    tensor.byte_strides = {};
    tensor.data = nullptr;
    if (tensor.kind == RecordKind::kStatistics) return;
    tensor.dtype = DType::kUint8;
    tensor.dims = kNoElements;
  }
}

Status CheckTensor(const TensorView& tensor, uint64_t* tensor_bytes) {
  Status status = CheckName("op", tensor.op, kOpBytesMax, false);
  if (status.ok()) {
    status = CheckName("index", tensor.index, kIndexBytesMax, true);
  }
  if (status.ok()) {
    status = CheckName("device", tensor.device, kDeviceBytesMax, false);
  }
  if (status.ok()) status = CheckPlacement(tensor.placement);
  if (status.ok()) status = CheckKind(tensor);
  if (!status.ok()) return status;
  if (tensor.token != MSIT_TOKEN_CURRENT && !IsTokenReference(tensor.token) &&
      (tensor.token < 0 || tensor.token > kTokenMax)) {
    return OutOfRange("token", tensor.token, kTokenMax);
  }
  if (tensor.call != MSIT_CALL_AUTO &&
      (tensor.call < 0 || tensor.call > kCallMax)) {
    return OutOfRange("call", tensor.call, kCallMax);
  }
  if (!IsValid(tensor.io)) {
    return InvalidArgument(
        "io " + std::to_string(int{static_cast<uint8_t>(tensor.io)}) +
        " is unknown");
  }
  if (!IsValid(tensor.dtype)) {
    return InvalidArgument(
        "dtype " + std::to_string(int{static_cast<uint8_t>(tensor.dtype)}) +
        " is unknown");
  }
  status = CheckShape(tensor, tensor_bytes);
  if (status.ok() && tensor.kind == RecordKind::kDocument) {
    status = CheckDocumentText(tensor, *tensor_bytes);
  }
  return status;
}

}  // namespace msitd::libmsit
