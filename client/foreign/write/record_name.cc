// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/record_name.h"

#include <fmt/format.h>

#include "client/foreign/write/file_name.h"
#include "client/foreign/write/tensor_index.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"

namespace msitd::write {
namespace {

// `runs/RUN/ranks/0/devices/DEVICE/tokens/0/ops/OP/calls/0/IO/INDEX`.
constexpr int kDevice = 5;
constexpr int kOp = 9;
constexpr int kCall = 11;
constexpr int kIo = 12;
constexpr int kIndex = 13;

}  // namespace

std::string RecordFileName(const v1::Tensor& record,
                           std::string_view extension) {
  const std::string call = std::to_string(record.call());
  return FileName(
      {record.op(), call, IoName(static_cast<Io>(record.io())), record.index()},
      extension);
}

std::string RecordName(const v1::Tensor& record) {
  std::string out;
  std::string_view rest = record.name();
  for (int i = 0; i <= kIndex; ++i) {
    const size_t slash = rest.find('/');
    const bool is_wanted =
        i == kDevice || i == kOp || i == kCall || i == kIo || i == kIndex;
    if (is_wanted) {
      if (i != kDevice) out += '/';
      out += rest.substr(0, slash);
    }
    rest.remove_prefix(slash == std::string_view::npos ? rest.size()
                                                       : slash + 1);
  }
  return out;
}

TorchTensor TorchTensorOf(const v1::Tensor& record) {
  const auto dtype = static_cast<DType>(record.dtype());
  const bool has_gradient = IsFloatingPoint(dtype) || IsComplex(dtype);
  TorchTensor out;
  out.dtype = dtype;
  out.shape = ShapeOf(record);
  out.size_bytes = static_cast<uint64_t>(record.size_bytes());
  out.requires_grad = has_gradient && record.requires_grad() &&
                      TorchTypeName(dtype) == DTypeName(dtype);
  return out;
}

}  // namespace msitd::write
