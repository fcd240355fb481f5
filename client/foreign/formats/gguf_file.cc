// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/gguf_file.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/gguf_blocks.h"
#include "protos/base/limits.h"
#include "protos/base/shape.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kVersionMin = 2;
constexpr uint32_t kVersionMax = 3;
constexpr uint64_t kAlignmentDefault = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";

// Types of properties.
constexpr uint32_t kUint32Property = 4;
constexpr uint32_t kTextProperty = 8;
constexpr uint32_t kListProperty = 9;

absl::Status BadHead(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "gguf head: {}", what);
}

absl::Status TooMuch(std::string_view what) {
  return MakeStatus(absl::StatusCode::kResourceExhausted,
                    "gguf head: it has too many {}", what);
}

// Reads the head from front to back, a window at a time, because a vocabulary
// is 10^5 short texts.
class HeadReader {
 public:
  explicit HeadReader(const ByteSource& bytes) : bytes_(bytes) {}

  uint64_t offset() const { return offset_; }

  template <typename Number>
  absl::StatusOr<Number> ReadNumber() {
    Number number = 0;
    MSITD_RETURN_IF_ERROR(Copy(std::as_writable_bytes(std::span(&number, 1))));
    return number;
  }

  absl::StatusOr<std::string> ReadText() {
    MSITD_ASSIGN_OR_RETURN(const uint64_t length, ReadNumber<uint64_t>());
    if (length > kGgufNameBytesMax) return TooMuch("bytes in a name");
    std::string text(length, '\0');
    MSITD_RETURN_IF_ERROR(Copy(std::as_writable_bytes(std::span<char>(text))));
    if (!IsValidUtf8(text)) return BadHead("a name is not UTF-8");
    return text;
  }

  absl::Status Skip(uint64_t bytes) {
    if (!bytes_.Has(offset_, bytes)) {
      return absl::DataLossError("gguf head: it is truncated");
    }
    offset_ += bytes;
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kWindowBytes = uint64_t{64} << 10;

  absl::Status Copy(std::span<std::byte> out) {
    const uint64_t begin = offset_;
    MSITD_RETURN_IF_ERROR(Skip(out.size()));
    if (out.size() > kWindowBytes) return bytes_.ReadAt(begin, out);
    const bool is_held = begin >= window_begin_ &&
                         begin + out.size() <= window_begin_ + window_.size();
    if (!is_held) {
      MSITD_ASSIGN_OR_RETURN(
          window_, bytes_.ReadText(
                       begin, std::min(kWindowBytes, bytes_.size() - begin)));
      window_begin_ = begin;
    }
    if (!out.empty()) {
      std::memcpy(out.data(), window_.data() + (begin - window_begin_),
                  out.size());
    }
    return absl::OkStatus();
  }

  const ByteSource& bytes_;
  uint64_t offset_ = 0;
  std::string window_;
  uint64_t window_begin_ = 0;
};

// Returns the bytes of a number of a property; 0 if the type is not a number.
uint64_t NumberBytes(uint32_t type) {
  constexpr uint64_t kBytes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return type < std::size(kBytes) ? kBytes[type] : 0;
}

// Skips values of a type. `items` counts texts and lists of the whole file.
absl::Status SkipValues(HeadReader& head, uint32_t type, uint64_t count,
                        int depth, uint64_t& items) {
  if (const uint64_t bytes = NumberBytes(type); bytes > 0) {
    if (count > std::numeric_limits<uint64_t>::max() / bytes) {
      return absl::DataLossError("gguf head: it is truncated");
    }
    return head.Skip(count * bytes);
  }
  if (type != kTextProperty && type != kListProperty) {
    return BadHead("a property has an unknown type");
  }
  if (depth > kNestingMax) return TooMuch("lists in one another");
  for (uint64_t i = 0; i < count; ++i) {
    if (++items > kGgufItemsMax) return TooMuch("texts");
    if (type == kTextProperty) {
      MSITD_ASSIGN_OR_RETURN(const uint64_t length,
                             head.ReadNumber<uint64_t>());
      MSITD_RETURN_IF_ERROR(head.Skip(length));
      continue;
    }
    MSITD_ASSIGN_OR_RETURN(const uint32_t inner, head.ReadNumber<uint32_t>());
    MSITD_ASSIGN_OR_RETURN(const uint64_t length, head.ReadNumber<uint64_t>());
    MSITD_RETURN_IF_ERROR(SkipValues(head, inner, length, depth + 1, items));
  }
  return absl::OkStatus();
}

// Skips the properties. Returns the alignment of tensors that they specify.
absl::StatusOr<uint64_t> ReadAlignment(HeadReader& head, uint64_t count) {
  uint64_t alignment = kAlignmentDefault;
  uint64_t items = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (++items > kGgufItemsMax) return TooMuch("properties");
    MSITD_ASSIGN_OR_RETURN(const std::string key, head.ReadText());
    MSITD_ASSIGN_OR_RETURN(const uint32_t type, head.ReadNumber<uint32_t>());
    if (key != kAlignmentKey) {
      MSITD_RETURN_IF_ERROR(SkipValues(head, type, 1, 0, items));
      continue;
    }
    if (type != kUint32Property) return BadHead("the alignment has no number");
    MSITD_ASSIGN_OR_RETURN(alignment, head.ReadNumber<uint32_t>());
    if (alignment == 0 || (alignment & (alignment - 1)) != 0) {
      return BadHead("the alignment is not a power of two");
    }
  }
  return alignment;
}

// One tensor of the head.
struct Row {
  std::string name;
  std::vector<int64_t> shape;
  uint32_t type = 0;
  uint64_t offset = 0;
};

absl::StatusOr<Row> ReadRow(HeadReader& head) {
  Row row;
  MSITD_ASSIGN_OR_RETURN(row.name, head.ReadText());
  MSITD_ASSIGN_OR_RETURN(const uint32_t dims, head.ReadNumber<uint32_t>());
  if (dims > kDimsMax) return TooMuch("dimensions");
  for (uint32_t i = 0; i < dims; ++i) {
    MSITD_ASSIGN_OR_RETURN(const uint64_t dim, head.ReadNumber<uint64_t>());
    // A dimension that is too large becomes negative, which CheckShape rejects.
    row.shape.push_back(static_cast<int64_t>(dim));
  }
  // The first dimension of the file is that of neighbors.
  std::reverse(row.shape.begin(), row.shape.end());
  MSITD_ASSIGN_OR_RETURN(row.type, head.ReadNumber<uint32_t>());
  MSITD_ASSIGN_OR_RETURN(row.offset, head.ReadNumber<uint64_t>());
  return row;
}

struct PlainType {
  uint32_t number;
  std::string_view name;
  DType dtype;
};

constexpr PlainType kPlainTypes[] = {
    {0, "F32", DType::kFloat32},  {1, "F16", DType::kFloat16},
    {24, "I8", DType::kInt8},     {25, "I16", DType::kInt16},
    {26, "I32", DType::kInt32},   {27, "I64", DType::kInt64},
    {28, "F64", DType::kFloat64}, {30, "BF16", DType::kBfloat16},
};

FileEntry PlainEntry(ForeignTensor tensor, const PlainType& type,
                     const std::shared_ptr<const ByteSource>& file,
                     uint64_t begin) {
  tensor.stored_type = type.name;
  tensor.dtype = type.dtype;
  absl::Status fits = CheckShape(tensor.dtype, tensor.shape);
  if (!fits.ok()) return MakeProblem(std::move(tensor), std::move(fits));
  StoredTensor stored;
  stored.source = file;
  stored.begin = begin;
  stored.bytes = ElementCount(tensor.shape) * ElementBytes(tensor.dtype);
  stored.axes = RowMajorAxes(tensor.shape);
  return MakeEntry(std::move(tensor), std::move(stored));
}

FileEntry BlockEntry(ForeignTensor tensor, const GgufBlockType& type,
                     const std::shared_ptr<const ByteSource>& file,
                     uint64_t begin) {
  tensor.stored_type = type.name;
  if (type.decode == nullptr) {
    return MakeProblem(
        std::move(tensor),
        MakeStatus(absl::StatusCode::kUnimplemented,
                   "msitd cannot convert the quantized type {}; convert the "
                   "file to F16 or F32, for example with llama-quantize "
                   "--allow-requantize",
                   type.name));
  }
  tensor.dtype = DType::kFloat32;
  absl::Status fits = CheckShape(tensor.dtype, tensor.shape);
  if (!fits.ok()) return MakeProblem(std::move(tensor), std::move(fits));
  const uint64_t elements = ElementCount(tensor.shape);
  const auto row = tensor.shape.empty()
                       ? uint64_t{1}
                       : static_cast<uint64_t>(tensor.shape.back());
  if (row % type.elements != 0) {
    return MakeProblem(
        std::move(tensor),
        MakeStatus(absl::StatusCode::kInvalidArgument,
                   "its rows have {} elements, but a block of {} has {}", row,
                   type.name, type.elements));
  }
  const uint64_t blocks = elements / type.elements;
  if (!file->Has(begin, blocks * type.bytes)) {
    return MakeProblem(std::move(tensor),
                       absl::DataLossError("the file is truncated before it"));
  }
  StoredTensor stored;
  stored.source = MakeGgufValues(file, begin, blocks, type);
  stored.bytes = stored.source->size();
  stored.axes = RowMajorAxes(tensor.shape);
  return MakeEntry(std::move(tensor), std::move(stored));
}

FileEntry EntryOfRow(Row row, const std::shared_ptr<const ByteSource>& file,
                     uint64_t data_begin) {
  ForeignTensor tensor;
  tensor.name = std::move(row.name);
  tensor.shape = row.shape;
  tensor.stored_shape = std::move(row.shape);
  if (row.offset > std::numeric_limits<uint64_t>::max() - data_begin) {
    return MakeProblem(std::move(tensor),
                       absl::DataLossError("the file is truncated before it"));
  }
  const uint64_t begin = data_begin + row.offset;
  for (const PlainType& type : kPlainTypes) {
    if (type.number == row.type) {
      return PlainEntry(std::move(tensor), type, file, begin);
    }
  }
  if (const GgufBlockType* const type = FindGgufBlockType(row.type)) {
    return BlockEntry(std::move(tensor), *type, file, begin);
  }
  tensor.stored_type = std::to_string(row.type);
  return MakeProblem(
      std::move(tensor),
      MakeStatus(absl::StatusCode::kUnimplemented,
                 "msitd does not know the type with the number {}", row.type));
}

absl::Status CheckVersion(uint32_t version) {
  if (version >= kVersionMin && version <= kVersionMax) {
    return absl::OkStatus();
  }
  if ((version & 0xFFFFU) == 0) {
    return absl::UnimplementedError("gguf: msitd reads no big-endian files");
  }
  return MakeStatus(absl::StatusCode::kUnimplemented,
                    "gguf: msitd reads versions {} and {}, not {}", kVersionMin,
                    kVersionMax, version);
}

}  // namespace

bool IsGguf(std::string_view first_bytes) {
  return first_bytes.starts_with(kMagic);
}

OpenedFile OpenGguf(std::shared_ptr<const ByteSource> bytes) {
  HeadReader head(*bytes);
  MSITD_RETURN_IF_ERROR(head.Skip(kMagic.size()));
  MSITD_ASSIGN_OR_RETURN(const uint32_t version, head.ReadNumber<uint32_t>());
  MSITD_RETURN_IF_ERROR(CheckVersion(version));
  MSITD_ASSIGN_OR_RETURN(const uint64_t tensors, head.ReadNumber<uint64_t>());
  MSITD_ASSIGN_OR_RETURN(const uint64_t properties,
                         head.ReadNumber<uint64_t>());
  if (tensors > kTensorsMax) return TooMuch("tensors");
  MSITD_ASSIGN_OR_RETURN(const uint64_t alignment,
                         ReadAlignment(head, properties));
  std::vector<Row> rows;
  for (uint64_t i = 0; i < tensors; ++i) {
    MSITD_ASSIGN_OR_RETURN(Row row, ReadRow(head));
    rows.push_back(std::move(row));
  }
  const uint64_t data_begin =
      (head.offset() + alignment - 1) / alignment * alignment;
  std::vector<FileEntry> entries;
  for (Row& row : rows) {
    entries.push_back(EntryOfRow(std::move(row), bytes, data_begin));
  }
  return std::make_unique<TensorFile>(FileKind::kGguf, Attributes(),
                                      std::move(entries));
}

}  // namespace msitd::formats
