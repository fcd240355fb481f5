// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/atb_file.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include "client/foreign/formats/atb_reference.h"
#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/ge/ge_names.h"
#include "client/foreign/formats/statistic_text.h"
#include "protos/base/limits.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

// Any of them can be first, since some writers omit lines.
constexpr std::string_view kFirstLines[] = {
    "$Version=", "$Object.Count=", "$Object.Length=", "format=",      "dtype=",
    "type=",     "dims=",          "data=",           "$Object.data="};
constexpr std::string_view kNorm = "l2norm";
constexpr std::string_view kStatistics[] = {"max", "min", "mean", kNorm};
// The type that msit assumes for a tensor whose header does not specify one.
// Statistics are numbers of that type for tensors of every type. For elements,
// the type would be a guess.
constexpr DType kUnsaidType = DType::kFloat32;

// The number of elements, as the writer counts them.
constexpr char kLength[] = "$Object.Length";
// Bytes that distinguish a header from elements.
constexpr uint64_t kFirstBytes = 32;

absl::Status BadAtbHead(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "ATB head: {}", what);
}

struct AtbHead {
  Attributes lines;
  // The offset of the elements, after the line `$End`.
  uint64_t bytes = 0;
};

absl::StatusOr<AtbHead> ReadAtbHead(const ByteSource& source) {
  const uint64_t most = std::min(source.size(), kAtbHeadBytesMax);
  MSITD_ASSIGN_OR_RETURN(const std::string text, source.ReadText(0, most));
  AtbHead head;
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos ||
        line.find('=', equals + 1) != std::string_view::npos) {
      return BadAtbHead("a line is not of the form name=value");
    }
    const std::string name(line.substr(0, equals));
    if (name == "$End") {
      head.bytes = text.size() - rest.size();
      return head;
    }
    head.lines[name] = line.substr(equals + 1);
  }
  return BadAtbHead("the line $End is missing");
}

// Removes a line from the header.
std::string TakeLine(const std::string& name, Attributes& lines) {
  auto node = lines.extract(name);
  return node.empty() ? std::string() : std::move(node.mapped());
}

bool ReadNumber(std::string_view text, int64_t& number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

// Returns -1 if the text is not a number.
int64_t NumberIn(std::string_view text) {
  int64_t number = -1;
  return ReadNumber(text, number) ? number : -1;
}

bool ReadDims(std::string_view text, std::vector<int64_t>& dims) {
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    int64_t dim = 0;
    if (!ReadNumber(text.substr(0, comma), dim) || dim < 0) return false;
    if (dims.size() > kDimsMax) return false;
    dims.push_back(dim);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return true;
}

absl::Status NotInFolder(std::string_view name) {
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "its bytes are in {}, which is not in its folder", name);
}

// Elements in another file.
struct OtherBytes {
  std::shared_ptr<const ByteSource> source;
  uint64_t begin = 0;
};

// Opens a file that contains only elements, or another tensor of the same type.
absl::StatusOr<OtherBytes> OpenOtherAt(const std::string& path,
                                       std::string_view name, DType dtype) {
  auto opened = FileSource::Open(path);
  if (!opened.ok()) return Annotate(opened.status(), name);
  OtherBytes out{*std::move(opened), 0};
  MSITD_ASSIGN_OR_RETURN(
      const std::string first,
      out.source->ReadText(
          0, std::min<uint64_t>(out.source->size(), kFirstBytes)));
  if (!IsAtb(first)) return out;
  auto head = ReadAtbHead(*out.source);
  if (!head.ok()) return Annotate(head.status(), name);
  const CannType type = AclTypeOf(NumberIn(TakeLine("dtype", head->lines)));
  if (head->lines.contains("data") || type.dtype != dtype) {
    return MakeStatus(absl::StatusCode::kNotFound,
                      "its bytes are in {}, which has no bytes of its type",
                      name);
  }
  out.begin = head->bytes;
  return out;
}

// Opens the file that a header names, if it is in the folder of the header or
// is the tensor of another op of the execution. A dump must not make its reader
// read files that the author of the dump cannot read.
absl::StatusOr<OtherBytes> OpenOther(std::string_view name,
                                     const std::string& folder, DType dtype,
                                     AtbFolders& folders) {
  std::string_view in_folder = name;
  if (!folder.empty() && in_folder.starts_with(folder + "/")) {
    in_folder.remove_prefix(folder.size() + 1);
  }
  const bool is_inside = !folder.empty() && !in_folder.empty() &&
                         in_folder.find('/') == std::string_view::npos &&
                         in_folder.find('\0') == std::string_view::npos &&
                         in_folder != "." && in_folder != "..";
  if (!is_inside) return NotInFolder(name);
  if (const auto reference = ParseAtbReference(in_folder)) {
    const auto path = FindAtbReference(*reference, folder, folders);
    if (path.has_value()) return OpenOtherAt(*path, name, dtype);
  }
  const std::string path = folder + "/" + std::string(in_folder);
  std::error_code ignored;
  const auto type = std::filesystem::symlink_status(path, ignored).type();
  // A missing file is reported when it is opened.
  if (type != std::filesystem::file_type::regular &&
      type != std::filesystem::file_type::not_found) {
    return MakeStatus(absl::StatusCode::kInvalidArgument,
                      "its bytes are in {}, which is not a regular file", name);
  }
  return OpenOtherAt(path, name, dtype);
}

// Sets the properties of the tensor from the header. The remaining lines become
// attributes.
absl::Status SetAtbTensor(Attributes& lines, ForeignTensor& tensor) {
  std::string type = TakeLine("dtype", lines);
  if (type.empty()) type = TakeLine("type", lines);
  const std::string format = TakeLine("format", lines);
  if (!ReadDims(TakeLine("dims", lines), tensor.shape)) {
    return BadAtbHead("the dimensions are not numbers");
  }
  tensor.stored_shape = tensor.shape;
  int64_t number = -1;
  if (!format.empty()) {
    if (!ReadNumber(format, number)) return BadAtbHead("the format is wrong");
    if (number >= 0) tensor.stored_layout = FormatName(number);
    tensor.is_as_stored = number >= 0 && !IsPlainFormat(number);
  }
  if (type.empty()) return absl::OkStatus();
  if (!ReadNumber(type, number)) return BadAtbHead("the type is wrong");
  const CannType element = AclTypeOf(number);
  tensor.stored_type = element.name;
  tensor.dtype = element.dtype;
  return absl::OkStatus();
}

FileEntry ReadAtbStatistics(ForeignTensor tensor) {
  if (tensor.stored_type.empty()) tensor.dtype = kUnsaidType;
  for (const std::string_view name : kStatistics) {
    auto line = tensor.attributes.extract(std::string(name));
    if (line.empty()) continue;
    auto text = StatisticText(line.mapped());
    if (!text.has_value()) {
      return MakeProblem(std::move(tensor),
                         MakeStatus(absl::StatusCode::kInvalidArgument,
                                    "its {} is not a number", name));
    }
    // The name that msitd uses everywhere.
    const std::string_view known = name == kNorm ? "l2_norm" : name;
    tensor.attributes[std::string(known)] = *std::move(text);
  }
  return MakeStatistics(std::move(tensor));
}

absl::StatusOr<FileEntry> ReadAtbEntry(std::shared_ptr<const ByteSource> bytes,
                                       const std::string& folder,
                                       AtbFolders& folders) {
  MSITD_ASSIGN_OR_RETURN(AtbHead head, ReadAtbHead(*bytes));
  ForeignTensor tensor;
  MSITD_RETURN_IF_ERROR(SetAtbTensor(head.lines, tensor));
  const std::string other = TakeLine("data", head.lines);
  tensor.attributes = std::move(head.lines);
  const bool has_statistics =
      std::any_of(std::begin(kStatistics), std::end(kStatistics),
                  [&](std::string_view name) {
                    return tensor.attributes.contains(std::string(name));
                  });
  if (has_statistics && other.empty() && head.bytes == bytes->size()) {
    return ReadAtbStatistics(std::move(tensor));
  }
  if (!IsValid(tensor.dtype)) {
    const std::string type =
        tensor.stored_type.empty() ? "missing type" : tensor.stored_type;
    return MakeProblem(
        std::move(tensor),
        MakeStatus(absl::StatusCode::kUnimplemented,
                   "msitd does not support elements of CANN's type {}", type));
  }
  absl::Status fits = CheckShape(tensor.dtype, tensor.shape);
  if (!fits.ok()) return MakeProblem(std::move(tensor), std::move(fits));
  const uint64_t count = ElementCount(tensor.shape);
  const auto length = tensor.attributes.find(kLength);
  const bool has_none =
      length == tensor.attributes.end() || NumberIn(length->second) == 0;
  if (other.empty() && has_none && head.bytes == bytes->size() && count > 0) {
    tensor.is_statistics = true;
    return MakeProblem(
        std::move(tensor),
        absl::UnimplementedError(
            "the file has only its description, not its elements"));
  }
  StoredTensor stored;
  stored.source = std::move(bytes);
  stored.begin = head.bytes;
  if (!other.empty()) {
    auto elements = OpenOther(other, folder, tensor.dtype, folders);
    if (!elements.ok()) {
      return MakeProblem(std::move(tensor), elements.status());
    }
    stored.source = std::move(elements->source);
    stored.begin = elements->begin;
  }
  stored.packing = CannPackingOf(tensor.dtype);
  stored.axes = RowMajorAxes(tensor.shape);
  stored.bytes = StoredBytes(count, tensor.dtype, stored.packing);
  return MakeEntry(std::move(tensor), std::move(stored));
}

}  // namespace

bool IsAtb(std::string_view first_bytes) {
  // A file may contain only statistics.
  return std::any_of(std::begin(kFirstLines), std::end(kFirstLines),
                     [&](std::string_view line) {
                       return first_bytes.starts_with(line);
                     }) ||
         std::any_of(std::begin(kStatistics), std::end(kStatistics),
                     [&](std::string_view name) {
                       return first_bytes.starts_with(name) &&
                              first_bytes.substr(name.size()).starts_with('=');
                     });
}

OpenedFile OpenAtb(std::shared_ptr<const ByteSource> bytes,
                   const std::string& folder, AtbFolders* folders) {
  AtbFolders own;
  MSITD_ASSIGN_OR_RETURN(FileEntry entry,
                         ReadAtbEntry(std::move(bytes), folder,
                                      folders == nullptr ? own : *folders));
  std::vector<FileEntry> entries;
  entries.push_back(std::move(entry));
  return std::make_unique<TensorFile>(FileKind::kAtb, Attributes(),
                                      std::move(entries));
}

}  // namespace msitd::formats
