// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_nano.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/ge/ge_tensor.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

// Tags of the header and of one tensor.
constexpr uint32_t kInputsTag = 4;
constexpr uint32_t kOutputsTag = 5;
constexpr uint32_t kShapeTag = 0;
constexpr uint32_t kOriginalShapeTag = 1;
constexpr uint32_t kNameTag = 2;

constexpr int32_t kUndefinedType = 28;

absl::Status BadNano(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "GE nano dump: {}",
                    what);
}

// Reads packed little-endian numbers. Nothing is read after the end; `is_good`
// is false if data was missing.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : rest_(bytes) {}

  template <typename Number>
  Number Take() {
    Number number = 0;
    const std::string_view bytes = TakeBytes(sizeof(number));
    if (is_good_) std::memcpy(&number, bytes.data(), sizeof(number));
    return number;
  }

  std::string_view TakeBytes(uint64_t count) {
    is_good_ = is_good_ && count <= rest_.size();
    if (!is_good_) return {};
    const std::string_view bytes = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return bytes;
  }

  void Fail() { is_good_ = false; }

  bool is_good() const { return is_good_; }
  bool is_at_end() const { return rest_.empty(); }

 private:
  std::string_view rest_;
  bool is_good_ = true;
};

struct NanoTensor {
  GeTensor tensor;
  std::string name;
};

std::vector<int64_t> ReadDims(std::string_view bytes) {
  // CheckShape rejects this shape.
  if (bytes.size() % sizeof(int64_t) != 0) return {-1};
  Cursor cursor(bytes);
  std::vector<int64_t> dims;
  // One dimension more than a tensor can have, so that CheckShape rejects it.
  while (!cursor.is_at_end() && dims.size() <= kDimsMax) {
    dims.push_back(cursor.Take<int64_t>());
  }
  return dims;
}

// Reads one tensor of a list. Outputs have more fields than inputs.
NanoTensor ReadTensor(bool is_output, Cursor& cursor) {
  NanoTensor read;
  GeTensor& tensor = read.tensor;
  const auto type = cursor.Take<int32_t>();
  tensor.has_no_type = type == kUndefinedType;
  // Elements of an undefined type are treated as bytes, as in the other kind of
  // dump.
  tensor.type = tensor.has_no_type ? GeTypeOf(0) : AclTypeOf(type);
  tensor.format = cursor.Take<int32_t>();
  (void)cursor.Take<int32_t>();  // The type of the address.
  // Index, type and format of the original output.
  if (is_output) (void)cursor.TakeBytes(3 * sizeof(int32_t));
  tensor.address = cursor.Take<uint64_t>();
  (void)cursor.Take<uint64_t>();  // The offset from the address.
  tensor.size = cursor.Take<uint64_t>();
  Cursor values(cursor.TakeBytes(cursor.Take<uint32_t>()));
  while (!values.is_at_end() && values.is_good()) {
    const auto tag = values.Take<uint32_t>();
    const std::string_view bytes = values.TakeBytes(values.Take<uint32_t>());
    if (tag == kShapeTag) tensor.shape = ReadDims(bytes);
    if (tag == kOriginalShapeTag) tensor.original_shape = ReadDims(bytes);
    if (tag == kNameTag && is_output) read.name = bytes.substr(0, kOpBytesMax);
  }
  if (!values.is_good()) cursor.Fail();
  return read;
}

absl::Status ReadList(Io io, std::string_view list, GeRawBytes& raw,
                      std::vector<FileEntry>& entries) {
  Cursor cursor(list);
  const auto count = cursor.Take<uint32_t>();
  for (uint32_t i = 0; i < count; ++i) {
    NanoTensor read = ReadTensor(io == Io::kOutput, cursor);
    if (!cursor.is_good()) return BadNano("a list of tensors is truncated");
    if (entries.size() == kTensorsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "GE nano dump: it has more than {} tensors",
                        kTensorsMax);
    }
    ForeignTensor tensor;
    tensor.io = io;
    tensor.index = fmt::format("{}", i);
    tensor.name = std::move(read.name);
    entries.push_back(GeEntry(read.tensor, std::move(tensor), raw));
  }
  return absl::OkStatus();
}

}  // namespace

bool IsGeNano(std::string_view head) {
  return Cursor(head).Take<uint32_t>() == kGeNanoMagic;
}

OpenedFile OpenGeNano(std::string_view head,
                      std::shared_ptr<const ByteSource> bytes, uint64_t begin) {
  Cursor cursor(head);
  (void)cursor.Take<uint32_t>();  // The magic number.
  Attributes attributes;
  attributes["version"] = fmt::format("{}", cursor.Take<uint32_t>());
  GeRawBytes raw(std::move(bytes), begin, /*skips_without_address=*/false,
                 /*is_whole=*/true);
  std::vector<FileEntry> entries;
  while (!cursor.is_at_end() && cursor.is_good()) {
    const auto tag = cursor.Take<uint32_t>();
    const std::string_view list = cursor.TakeBytes(cursor.Take<uint32_t>());
    if (!cursor.is_good()) break;
    if (tag == kInputsTag) {
      MSITD_RETURN_IF_ERROR(ReadList(Io::kInput, list, raw, entries));
    } else if (tag == kOutputsTag) {
      MSITD_RETURN_IF_ERROR(ReadList(Io::kOutput, list, raw, entries));
    }
  }
  if (!cursor.is_good()) return BadNano("the head is truncated");
  return std::make_unique<TensorFile>(FileKind::kGeDump, std::move(attributes),
                                      std::move(entries));
}

}  // namespace msitd::formats
