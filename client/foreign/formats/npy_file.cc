// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/npy_file.h"

#include <charconv>
#include <optional>

#include "client/foreign/formats/format_limits.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
// Magic number and version.
constexpr uint64_t kNpyPrefixBytes = 8;

absl::Status BadNpyHead(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "npy head: {}", what);
}

// The dictionary of a header.
struct NpyHead {
  // Empty if it is not a text but the fields of a record.
  std::string descr;
  bool is_fortran = false;
  std::vector<int64_t> shape;
};

// Parses the one dictionary that NumPy writes, with its keys in any order.
// Supports only the literals that can occur in it.
class HeadParser {
 public:
  explicit HeadParser(std::string_view text) : text_(text) {}

  absl::StatusOr<NpyHead> Parse() {
    NpyHead head;
    bool has_descr = false;
    bool has_order = false;
    bool has_shape = false;
    if (!Take('{')) return BadNpyHead("it is not a dictionary");
    while (!Take('}')) {
      std::string key;
      if (!TakeText(key) || !Take(':')) return BadNpyHead("a key is missing");
      bool is_good = false;
      bool* has = nullptr;
      if (key == "descr") {
        has = &has_descr;
        is_good = TakeText(head.descr) || SkipBrackets();
      } else if (key == "fortran_order") {
        has = &has_order;
        is_good = TakeBool(head.is_fortran);
      } else if (key == "shape") {
        has = &has_shape;
        is_good = TakeShape(head.shape);
      }
      if (!is_good || *has) return BadNpyHead("a value is wrong");
      *has = true;
      if (!Take(',') && Peek() != '}') return BadNpyHead("a comma is missing");
    }
    if (!has_descr || !has_order || !has_shape || Peek() != '\0') {
      return BadNpyHead("it does not have the three keys");
    }
    return head;
  }

 private:
  // Returns the next non-blank character; 0 at the end.
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) {
      ++at_;
    }
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }

  bool TakeWord(std::string_view word) {
    (void)Peek();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  bool TakeBool(bool& value) {
    value = TakeWord("True");
    return value || TakeWord("False");
  }

  bool TakeText(std::string& value) {
    const char quote = Peek();
    if (quote != '\'' && quote != '"') return false;
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) return false;
    value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value.find('\\') == std::string::npos;
  }

  bool TakeNumber(int64_t& value) {
    (void)Peek();
    const char* const begin = text_.data() + at_;
    const auto [end, error] =
        std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || value < 0) return false;
    at_ += static_cast<size_t>(end - begin);
    // Python 2 wrote long integers with this suffix.
    (void)TakeWord("L");
    return true;
  }

  bool TakeShape(std::vector<int64_t>& shape) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      int64_t dim = 0;
      // One dimension more than a tensor can have, so that CheckShape rejects
      // it.
      if (shape.size() > kDimsMax || !TakeNumber(dim)) return false;
      shape.push_back(dim);
      if (!Take(',') && (Peek() != ')' || shape.size() == 1)) return false;
    }
    return true;
  }

  // Skips the fields of a record; only their end matters.
  bool SkipBrackets() {
    if (Peek() != '[') return false;
    int depth = 0;
    do {
      const char c = Peek();
      std::string ignored;
      if (c == '\'' || c == '"') {
        if (!TakeText(ignored)) return false;
        continue;
      }
      if (c == '\0') return false;
      if (c == '[' || c == '(') ++depth;
      if (c == ']' || c == ')') --depth;
      if (depth > kNestingMax) return false;
      ++at_;
    } while (depth > 0);
    return true;
  }

  const std::string_view text_;
  size_t at_ = 0;
};

struct ElementType {
  DType dtype = DType::kUnspecified;
  bool is_big_endian = false;
};

// Reads a type string such as `<f4`.
absl::StatusOr<ElementType> NumpyTypeOf(std::string_view descr,
                                        const OpenOptions& options) {
  const std::string_view whole = descr;
  if (descr.empty()) {
    return absl::UnimplementedError("its elements are records");
  }
  ElementType type;
  const char order = descr.front();
  if (order == '<' || order == '>' || order == '|' || order == '=') {
    descr.remove_prefix(1);
  }
  type.is_big_endian = order == '>';
  if (descr == "V1" && options.void1.has_value()) {
    type.dtype = *options.void1;
    return type;
  }
  // The only type of ml_dtypes with two bytes is bfloat16.
  if (descr == "V2" && order != '>') {
    type.dtype = options.void2.value_or(DType::kBfloat16);
    return type;
  }
  switch (descr.empty() ? '\0' : descr.front()) {
    case 'O':
      return absl::UnimplementedError("its elements are Python objects");
    case 'S':
    case 'U':
      return absl::UnimplementedError("its elements are strings");
    case 'V':
      return MakeStatus(
          absl::StatusCode::kUnimplemented,
          "the file does not specify the meaning of its elements of type {}",
          descr);
    case '?':
      descr = "b1";
      break;
    default:
      break;
  }
  // The first type in the table with a name is the one that NumPy means. Other
  // types only use the name for their bits.
  for (const DType dtype :
       {DType::kBool, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64,
        DType::kUint8, DType::kUint16, DType::kUint32, DType::kUint64,
        DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kComplex64,
        DType::kComplex128}) {
    if (InfoOf(dtype).numpy == descr) type.dtype = dtype;
  }
  if (descr == "bfloat16") type.dtype = DType::kBfloat16;
  if (!IsValid(type.dtype)) {
    return MakeStatus(absl::StatusCode::kUnimplemented,
                      "msitd does not support elements of the NumPy type {}",
                      whole);
  }
  return type;
}

struct NpyPlace {
  uint64_t head_begin = 0;
  uint64_t head_bytes = 0;
};

absl::StatusOr<NpyPlace> FindNpyHead(const ByteSource& bytes) {
  MSITD_ASSIGN_OR_RETURN(const std::string magic,
                         bytes.ReadText(0, kNpyMagic.size()));
  if (!IsNpy(magic)) return BadNpyHead("the magic is missing");
  MSITD_ASSIGN_OR_RETURN(const uint8_t major,
                         bytes.ReadNumber<uint8_t>(kNpyMagic.size()));
  if (major < 1 || major > 3) return BadNpyHead("the version is unknown");
  NpyPlace place;
  if (major == 1) {
    MSITD_ASSIGN_OR_RETURN(place.head_bytes,
                           bytes.ReadNumber<uint16_t>(kNpyPrefixBytes));
    place.head_begin = kNpyPrefixBytes + sizeof(uint16_t);
  } else {
    MSITD_ASSIGN_OR_RETURN(place.head_bytes,
                           bytes.ReadNumber<uint32_t>(kNpyPrefixBytes));
    place.head_begin = kNpyPrefixBytes + sizeof(uint32_t);
  }
  if (place.head_bytes > kNpyHeadBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "npy head: it has {} bytes; the maximum is {}",
                      place.head_bytes, kNpyHeadBytesMax);
  }
  return place;
}

}  // namespace

bool IsNpy(std::string_view first_bytes) {
  return first_bytes.starts_with(kNpyMagic);
}

absl::StatusOr<FileEntry> ReadNpyEntry(std::shared_ptr<const ByteSource> bytes,
                                       const OpenOptions& options) {
  MSITD_ASSIGN_OR_RETURN(const NpyPlace place, FindNpyHead(*bytes));
  MSITD_ASSIGN_OR_RETURN(const std::string text,
                         bytes->ReadText(place.head_begin, place.head_bytes));
  MSITD_ASSIGN_OR_RETURN(NpyHead head, HeadParser(text).Parse());
  ForeignTensor tensor;
  tensor.stored_type = head.descr;
  tensor.stored_layout = head.is_fortran ? "fortran" : "";
  tensor.shape = head.shape;
  tensor.stored_shape = std::move(head.shape);
  const auto type = NumpyTypeOf(head.descr, options);
  if (!type.ok()) return MakeProblem(std::move(tensor), type.status());
  tensor.dtype = type->dtype;
  StoredTensor stored;
  stored.begin = place.head_begin + place.head_bytes;
  stored.is_big_endian = type->is_big_endian;
  stored.source = std::move(bytes);
  const absl::Status fits = CheckShape(tensor.dtype, tensor.shape);
  if (!fits.ok()) return MakeProblem(std::move(tensor), fits);
  stored.axes = head.is_fortran ? ColumnMajorAxes(tensor.shape)
                                : RowMajorAxes(tensor.shape);
  stored.bytes = ElementBytes(tensor.dtype);
  for (const int64_t dim : tensor.shape) {
    stored.bytes *= static_cast<uint64_t>(dim);
  }
  return MakeEntry(std::move(tensor), std::move(stored));
}

}  // namespace msitd::formats
