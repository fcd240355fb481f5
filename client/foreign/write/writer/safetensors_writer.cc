// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/writer/safetensors_writer.h"

#include <algorithm>

#include "client/foreign/write/record_name.h"
#include "client/foreign/write/tensor_index.h"
#include "client/foreign/write/writer/json_writer.h"
#include "protos/base/dtype.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

constexpr uint64_t kLengthBytes = 8;
constexpr uint64_t kHeadAlignment = 64;

struct StoredType {
  std::string name;
  // The number of elements that represent one element of msitd, in an
  // additional dimension.
  int64_t parts = 1;
  bool is_substitute = false;
};

StoredType StoredTypeOf(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {"BOOL"};
    case DType::kBfloat16:
      return {"BF16"};
    case DType::kFloat8E4m3fn:
      return {"F8_E4M3"};
    case DType::kFloat8E5m2:
      return {"F8_E5M2"};
    case DType::kFloat8E8m0fnu:
      return {"F8_E8M0"};
    case DType::kComplex64:
      return {"C64"};
    case DType::kComplex128:
      return {"F64", 2, true};
    case DType::kComplex32:
      return {"F16", 2, true};
    case DType::kHifloat8:
    case DType::kFloat8E4m3fnuz:
    case DType::kFloat8E5m2fnuz:
    case DType::kBits8:
    case DType::kBits1x8:
    case DType::kBits2x4:
    case DType::kBits4x2:
      return {"U8", 1, true};
    case DType::kBits16:
      return {"U16", 1, true};
    default:
      break;
  }
  const DTypeInfo& info = InfoOf(dtype);
  if (info.bits != 8 * info.bytes)
    return {info.numpy == "i1" ? "I8" : "U8", 1, true};
  const char letter = info.kind == DTypeKind::kFloat ? 'F'
                      : info.numpy.starts_with('u')  ? 'U'
                                                     : 'I';
  return {letter + std::to_string(info.bits)};
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(std::vector<v1::Tensor> rows,
                                     Metadata metadata, OutputFile& file)
    : rows_(std::move(rows)), metadata_(std::move(metadata)), file_(file) {
  const auto element_bytes = [](const v1::Tensor& row) {
    return ElementBytes(static_cast<DType>(row.dtype()));
  };
  std::stable_sort(rows_.begin(), rows_.end(),
                   [&](const v1::Tensor& a, const v1::Tensor& b) {
                     return element_bytes(a) > element_bytes(b);
                   });
}

// Rows that have not been written count as complete.
std::string SafetensorsWriter::Head() const {
  JsonWriter out(/*indent=*/0);
  out.BeginObject().Key("__metadata__").BeginObject();
  for (const auto& [key, value] : metadata_) out.Field(key, value);
  for (const v1::Tensor& row : rows_) {
    const auto dtype = static_cast<DType>(row.dtype());
    if (StoredTypeOf(dtype).is_substitute) {
      out.Field("msitd.dtype." + RecordName(row), DTypeName(dtype));
    }
  }
  out.EndObject();
  int64_t offset = 0;
  for (size_t i = 0; i < rows_.size(); ++i) {
    if (i < is_whole_.size() && !is_whole_[i]) continue;
    const v1::Tensor& row = rows_[i];
    const StoredType type = StoredTypeOf(static_cast<DType>(row.dtype()));
    out.Key(RecordName(row)).BeginObject().Field("dtype", type.name);
    out.Key("shape").BeginList();
    for (const int64_t extent : row.shape()) out.Number(extent);
    if (type.parts != 1) out.Number(type.parts);
    out.EndList().Key("data_offsets").BeginList();
    out.Number(offset);
    offset += row.size_bytes();
    out.Number(offset);
    out.EndList().EndObject();
  }
  out.EndObject();
  return out.Take();
}

absl::Status SafetensorsWriter::Begin() {
  const uint64_t unpadded = kLengthBytes + Head().size();
  const uint64_t begin =
      (unpadded + kHeadAlignment - 1) / kHeadAlignment * kHeadAlignment;
  head_bytes_ = begin - kLengthBytes;
  return file_.Write(std::string(begin, ' '));
}

absl::Status SafetensorsWriter::End(bool is_whole) {
  const v1::Tensor& row = rows_[is_whole_.size()];
  const StoredType type = StoredTypeOf(static_cast<DType>(row.dtype()));
  stored_as_ = type.is_substitute ? type.name : "";
  is_whole_.push_back(is_whole);
  if (is_whole) return absl::OkStatus();
  uint64_t size = kLengthBytes + head_bytes_;
  for (size_t i = 0; i < is_whole_.size(); ++i) {
    if (is_whole_[i]) size += static_cast<uint64_t>(rows_[i].size_bytes());
  }
  return file_.Truncate(size);
}

absl::Status SafetensorsWriter::Finish() {
  std::string head;
  for (uint64_t i = 0; i < kLengthBytes; ++i) {
    head += static_cast<char>(head_bytes_ >> 8 * i & 0xff);
  }
  head += Head();
  return file_.WriteAt(0, head);
}

}  // namespace msitd::write
