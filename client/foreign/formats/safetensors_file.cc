// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/safetensors_file.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "client/foreign/formats/format_limits.h"
#include "protos/base/limits.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kHeadBegin = 8;
constexpr std::string_view kMetadata = "__metadata__";

struct NamedType {
  std::string_view name;
  DType dtype;
};

constexpr NamedType kSafetensorsTypes[] = {
    {"BOOL", DType::kBool},
    {"U8", DType::kUint8},
    {"I8", DType::kInt8},
    {"I16", DType::kInt16},
    {"U16", DType::kUint16},
    {"F16", DType::kFloat16},
    {"BF16", DType::kBfloat16},
    {"I32", DType::kInt32},
    {"U32", DType::kUint32},
    {"F32", DType::kFloat32},
    {"F64", DType::kFloat64},
    {"I64", DType::kInt64},
    {"U64", DType::kUint64},
    {"C64", DType::kComplex64},
    {"F8_E4M3", DType::kFloat8E4m3fn},
    {"F8_E5M2", DType::kFloat8E5m2},
    {"F8_E8M0", DType::kFloat8E8m0fnu},
    {"F6_E2M3", DType::kFloat6E2m3fn},
    {"F6_E3M2", DType::kFloat6E3m2fn},
    {"F4", DType::kFloat4E2m1fn},
};

// One tensor of the header.
struct Row {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;
  std::vector<uint64_t> offsets;
};

// Handles the header while it is parsed. No tree is built, because it could be
// fifty times as large as the text.
class HeadHandler final : public nlohmann::json_sax<Json> {
 public:
  std::vector<Row> rows;
  Attributes attributes;
  // The reason why parsing stopped.
  std::string problem = "it is not valid JSON";

  bool start_object(size_t) override {
    if (++depth_ > 2 || in_array_) return Stop("an object is out of place");
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  bool start_array(size_t) override {
    const bool is_known = key_ == "shape" || key_ == "data_offsets";
    if (depth_ != 2 || in_array_ || !is_known || in_metadata_) {
      return Stop("a list is out of place");
    }
    in_array_ = true;
    return true;
  }
  bool end_array() override {
    in_array_ = false;
    return true;
  }
  bool key(std::string& key) override {
    if (depth_ == 2) {
      key_ = key;
      return true;
    }
    in_metadata_ = key == kMetadata;
    if (in_metadata_) return true;
    if (rows.size() == kTensorsMax) return Stop("it has too many tensors");
    rows.push_back({});
    rows.back().name = key;
    return true;
  }
  bool string(std::string& text) override {
    if (depth_ != 2 || in_array_) return Stop("a string is out of place");
    if (in_metadata_) {
      attributes[key_] = text;
    } else if (key_ == "dtype") {
      rows.back().type = text;
    }
    return true;
  }
  bool number_unsigned(uint64_t number) override {
    if (!in_array_) return Stop("a number is out of place");
    Row& row = rows.back();
    if (key_ == "data_offsets") {
      if (row.offsets.size() == 2) return Stop("it has too many offsets");
      row.offsets.push_back(number);
      return true;
    }
    // One dimension more than a tensor can have, so that CheckShape rejects it.
    if (row.shape.size() > kDimsMax) return true;
    row.shape.push_back(static_cast<int64_t>(number));
    return true;
  }
  bool number_integer(int64_t) override { return Stop("a number is negative"); }
  bool number_float(double, const std::string&) override {
    return Stop("a number is out of place");
  }
  bool null() override { return Stop("a null is out of place"); }
  bool boolean(bool) override { return Stop("a bool is out of place"); }
  bool binary(Json::binary_t&) override { return Stop("it is not valid JSON"); }
  bool parse_error(size_t, const std::string&,
                   const nlohmann::detail::exception&) override {
    return false;
  }

 private:
  bool Stop(std::string_view why) {
    problem = why;
    return false;
  }

  int depth_ = 0;
  bool in_array_ = false;
  bool in_metadata_ = false;
  std::string key_;
};

DType SafetensorsTypeOf(std::string_view name) {
  for (const NamedType& type : kSafetensorsTypes) {
    if (type.name == name) return type.dtype;
  }
  return DType::kUnspecified;
}

FileEntry EntryOfRow(Row row, const std::shared_ptr<const ByteSource>& source,
                     uint64_t begin) {
  ForeignTensor tensor;
  tensor.name = std::move(row.name);
  tensor.stored_type = row.type;
  tensor.dtype = SafetensorsTypeOf(row.type);
  tensor.shape = row.shape;
  tensor.stored_shape = std::move(row.shape);
  if (!IsValid(tensor.dtype)) {
    return MakeProblem(
        std::move(tensor),
        MakeStatus(absl::StatusCode::kUnimplemented,
                   "msitd does not support elements of the type {}", row.type));
  }
  absl::Status fits = CheckShape(tensor.dtype, tensor.shape);
  if (!fits.ok()) return MakeProblem(std::move(tensor), std::move(fits));
  StoredTensor stored;
  stored.source = source;
  stored.packing =
      InfoOf(tensor.dtype).bits < 8 ? Packing::kLowestFirst : Packing::kNone;
  stored.axes = RowMajorAxes(tensor.shape);
  const uint64_t needed =
      StoredBytes(ElementCount(tensor.shape), tensor.dtype, stored.packing);
  if (row.offsets.size() != 2 || row.offsets[0] > row.offsets[1] ||
      row.offsets[1] - row.offsets[0] != needed) {
    return MakeProblem(
        std::move(tensor),
        MakeStatus(
            absl::StatusCode::kInvalidArgument,
            "its offsets are not {} bytes apart, as its shape and type require",
            needed));
  }
  if (!source->Has(row.offsets[0], needed)) {
    return MakeProblem(std::move(tensor),
                       absl::DataLossError("the file is truncated before it"));
  }
  stored.begin = begin + row.offsets[0];
  stored.bytes = needed;
  return MakeEntry(std::move(tensor), std::move(stored));
}

}  // namespace

bool IsSafetensors(std::string_view first_bytes, uint64_t size) {
  if (first_bytes.size() <= kHeadBegin || first_bytes[kHeadBegin] != '{') {
    return false;
  }
  uint64_t length = 0;
  std::memcpy(&length, first_bytes.data(), sizeof(length));
  return length <= std::max(size, kHeadBytesMax);
}

absl::StatusOr<std::vector<FileEntry>> ReadSafetensors(
    std::shared_ptr<const ByteSource> bytes, Attributes& attributes) {
  MSITD_ASSIGN_OR_RETURN(const uint64_t length, bytes->ReadNumber<uint64_t>(0));
  if (length > kHeadBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "safetensors head: it has {} bytes; the maximum is {}",
                      length, kHeadBytesMax);
  }
  const auto text = bytes->ReadText(kHeadBegin, length);
  if (!text.ok()) return Annotate(text.status(), "safetensors head");
  HeadHandler handler;
  if (!Json::sax_parse(*text, &handler)) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "safetensors head: {}", handler.problem);
  }
  std::vector<FileEntry> entries;
  for (Row& row : handler.rows) {
    entries.push_back(EntryOfRow(std::move(row), bytes, kHeadBegin + length));
  }
  attributes = std::move(handler.attributes);
  return entries;
}

OpenedFile OpenSafetensors(std::shared_ptr<const ByteSource> bytes) {
  Attributes attributes;
  MSITD_ASSIGN_OR_RETURN(std::vector<FileEntry> entries,
                         ReadSafetensors(std::move(bytes), attributes));
  return std::make_unique<TensorFile>(
      FileKind::kSafetensors, std::move(attributes), std::move(entries));
}

}  // namespace msitd::formats
