// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_tensor.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "client/foreign/formats/ge/ge_layout.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

void SetLayout(const GeTensor& from, ForeignTensor& tensor,
               StoredTensor& stored) {
  auto view = ViewAsPlain(from.format, from.sub_format, tensor.stored_shape,
                          from.original_shape);
  if (view.has_value()) {
    tensor.shape = std::move(view->shape);
    stored.axes = std::move(view->axes);
    return;
  }
  stored.axes = RowMajorAxes(tensor.stored_shape);
  tensor.is_as_stored = !IsPlainFormat(from.format);
}

}  // namespace

StoredTensor GeRawBytes::Take(uint64_t size, uint64_t address) {
  StoredTensor stored;
  stored.source = source_;
  stored.begin = at_;
  if (!skips_without_address_ || address != 0) stored.bytes = size;
  // Saturates, so that a position after the end of the file stays there.
  at_ += std::min(stored.bytes, std::numeric_limits<uint64_t>::max() - at_);
  return stored;
}

FileEntry GeEntry(const GeTensor& from, ForeignTensor tensor, GeRawBytes& raw) {
  StoredTensor stored = raw.Take(from.size, from.address);
  const CannType& type = from.type;
  tensor.dtype = type.dtype;
  tensor.stored_type = type.name;
  tensor.stored_layout = FormatName(from.format);
  tensor.stored_shape = from.shape;
  if (from.has_no_type) {
    tensor.stored_shape = {static_cast<int64_t>(
        std::min<uint64_t>(from.size, std::numeric_limits<int64_t>::max()))};
  }
  tensor.shape = tensor.stored_shape;
  if (!IsValid(type.dtype)) {
    return MakeProblem(
        std::move(tensor),
        MakeStatus(absl::StatusCode::kUnimplemented,
                   "msitd does not support elements of CANN's type {}",
                   type.name));
  }
  absl::Status fits = CheckShape(type.dtype, tensor.stored_shape);
  if (!fits.ok()) return MakeProblem(std::move(tensor), std::move(fits));
  stored.packing = CannPackingOf(type.dtype);
  const uint64_t needed = StoredBytes(ElementCount(tensor.stored_shape),
                                      type.dtype, stored.packing);
  const bool is_nothing = from.has_no_type && from.size == 0;
  if (is_nothing || (needed > 0 && stored.bytes == 0)) {
    if (raw.is_whole()) return MakeAbsent(std::move(tensor));
    return MakeProblem(std::move(tensor),
                       absl::DataLossError("the dump is truncated"));
  }
  // Further bytes are padding, which may be absent.
  stored.bytes = std::min(stored.bytes, needed);
  stored.dtype = type.dtype;
  SetLayout(from, tensor, stored);
  return MakeEntry(std::move(tensor), std::move(stored));
}

}  // namespace msitd::formats
