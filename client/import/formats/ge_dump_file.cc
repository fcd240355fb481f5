// SPDX-License-Identifier: Apache-2.0
#include "client/import/formats/ge_dump_file.h"

#include <fmt/format.h>
#include <google/protobuf/io/coded_stream.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "client/import/formats/format_limits.h"
#include "client/import/formats/ge_dump.pb.h"
#include "client/import/formats/ge_names.h"
#include "client/import/formats/ge_nano.h"
#include "client/import/formats/ge_tensor.h"
#include "protos/base/limits.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

constexpr uint64_t kLengthBytes = 8;
// Of what always has bytes.
constexpr uint64_t kAnyAddress = 1;

absl::Status BadGeHead(std::string_view what) {
  return MakeStatus(absl::StatusCode::kInvalidArgument, "GE dump: {}", what);
}

// Numbers that no dimension has become -1, which CheckShape refuses.
std::vector<int64_t> ShapeOf(const ge::Shape& shape) {
  std::vector<int64_t> dims;
  for (const uint64_t dim : shape.dim()) {
    const bool is_dim = dim <= std::numeric_limits<int64_t>::max();
    dims.push_back(is_dim ? static_cast<int64_t>(dim) : -1);
    if (dims.size() > kDimsMax) break;
  }
  return dims;
}

template <typename Message>
GeTensor Describe(const Message& message) {
  GeTensor tensor;
  tensor.type = GeTypeOf(message.data_type());
  tensor.has_no_type = message.data_type() == 0;
  tensor.format = message.format();
  tensor.sub_format = message.sub_format();
  tensor.shape = ShapeOf(message.shape());
  tensor.original_shape = ShapeOf(message.original_shape());
  tensor.size = message.size();
  tensor.address = message.address();
  return tensor;
}

// Counts repeated messages without making them, since an empty one takes two
// bytes here and a hundred times as much in memory.
absl::Status CheckMessageCount(const std::string& head) {
  google::protobuf::io::CodedInputStream in(
      reinterpret_cast<const uint8_t*>(head.data()),
      static_cast<int>(head.size()));
  uint64_t count = 0;
  while (const uint32_t tag = in.ReadTag()) {
    uint64_t number = 0;
    uint32_t length = 0;
    bool is_good = false;
    switch (tag & 7) {
      case 0:
        is_good = in.ReadVarint64(&number);
        break;
      case 1:
        is_good = in.Skip(8);
        break;
      case 2:
        is_good = in.ReadVarint32(&length) && length <= head.size() &&
                  in.Skip(static_cast<int>(length));
        ++count;
        break;
      case 5:
        is_good = in.Skip(4);
        break;
      default:
        break;
    }
    if (!is_good) return BadGeHead("the head is no message");
    if (count > kTensorsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "GE dump: it has more than {} tensors", kTensorsMax);
    }
  }
  return absl::OkStatus();
}

// The sizes of the workspaces, wherever an edition has them.
std::vector<uint64_t> WorkspacesOf(const ge::DumpData& head) {
  std::vector<uint64_t> sizes;
  for (const std::string& bytes : head.attr()) {
    ge::OpAttr attr;
    ge::Workspace space;
    const bool is_attr = attr.ParseFromString(bytes) && !attr.name().empty();
    if (!is_attr && space.ParseFromString(bytes)) sizes.push_back(space.size());
  }
  for (const ge::Workspace& space : head.space()) sizes.push_back(space.size());
  std::erase(sizes, 0);
  return sizes;
}

// Says whether tensors without an address have no bytes in the file, although
// they have a size. Only newer editions write addresses at all.
bool SkipsWithoutAddress(const ge::DumpData& head, uint64_t raw_bytes) {
  unsigned __int128 total = 0;
  bool has_address = false;
  const auto add = [&](const auto& tensors) {
    for (const auto& tensor : tensors) {
      total += tensor.size();
      has_address = has_address || tensor.address() != 0;
    }
  };
  add(head.input());
  add(head.output());
  for (const auto& buffer : head.buffer()) total += buffer.size();
  for (const uint64_t size : WorkspacesOf(head)) total += size;
  return has_address && total > raw_bytes;
}

FileEntry RawEntry(std::string_view name, int index, uint64_t size,
                   GeRawBytes& raw) {
  ForeignTensor tensor;
  tensor.name = name;
  tensor.index = fmt::format("{}", index);
  tensor.stored_type = "bytes";
  tensor.dtype = DType::kUint8;
  tensor.shape = {static_cast<int64_t>(
      std::min<uint64_t>(size, std::numeric_limits<int64_t>::max()))};
  tensor.stored_shape = tensor.shape;
  StoredTensor stored = raw.Take(size, kAnyAddress);
  absl::Status fits = CheckShape(tensor.dtype, tensor.shape);
  if (!fits.ok()) return MakeProblem(std::move(tensor), std::move(fits));
  stored.axes = RowMajorAxes(tensor.shape);
  return MakeEntry(std::move(tensor), std::move(stored));
}

FileEntry InputEntry(const ge::OpInput& input, int index, GeRawBytes& raw) {
  ForeignTensor tensor;
  tensor.io = Io::kInput;
  tensor.index = fmt::format("{}", index);
  if (input.input_type() != 0) {
    tensor.attributes["input_type"] = fmt::format("{}", input.input_type());
  }
  if (input.arg_index() != 0) {
    tensor.attributes["arg_index"] = fmt::format("{}", input.arg_index());
  }
  return GeEntry(Describe(input), std::move(tensor), raw);
}

FileEntry OutputEntry(const ge::OpOutput& output, int index, GeRawBytes& raw) {
  ForeignTensor tensor;
  tensor.io = Io::kOutput;
  tensor.index = fmt::format("{}", index);
  tensor.name = output.original_op().name();
  if (!tensor.name.empty()) {
    tensor.attributes["output_index"] =
        fmt::format("{}", output.original_op().output_index());
  }
  return GeEntry(Describe(output), std::move(tensor), raw);
}

std::vector<FileEntry> EntriesOf(const ge::DumpData& head, GeRawBytes raw) {
  std::vector<FileEntry> entries;
  for (int i = 0; i < head.input_size(); ++i) {
    entries.push_back(InputEntry(head.input(i), i, raw));
  }
  for (int i = 0; i < head.output_size(); ++i) {
    entries.push_back(OutputEntry(head.output(i), i, raw));
  }
  for (int i = 0; i < head.buffer_size(); ++i) {
    if (head.buffer(i).size() == 0) continue;
    entries.push_back(RawEntry("buffer", i, head.buffer(i).size(), raw));
  }
  int index = 0;
  for (const uint64_t size : WorkspacesOf(head)) {
    entries.push_back(RawEntry("workspace", index++, size, raw));
  }
  return entries;
}

Attributes AttributesOf(const ge::DumpData& head) {
  Attributes attributes;
  attributes["version"] = head.version();
  attributes["op_name"] = head.op_name();
  if (head.dump_time() != 0) {
    attributes["dump_time"] = fmt::format("{}", head.dump_time());
  }
  attributes["dfx_message"] = head.dfx_message();
  for (const std::string& bytes : head.attr()) {
    ge::OpAttr attr;
    if (attr.ParseFromString(bytes) && !attr.name().empty()) {
      attributes["attr." + attr.name()] = attr.value();
    }
  }
  std::erase_if(attributes,
                [](const auto& item) { return item.second.empty(); });
  return attributes;
}

}  // namespace

bool IsGeDump(std::string_view first_bytes, uint64_t size) {
  if (size <= kLengthBytes || first_bytes.size() <= kLengthBytes) return false;
  uint64_t length = 0;
  std::memcpy(&length, first_bytes.data(), sizeof(length));
  const auto tag = static_cast<uint8_t>(first_bytes[kLengthBytes]);
  const bool is_message = tag == 0x10 || (tag % 8 == 2 && tag < 0x50);
  const bool is_nano = tag == (kGeNanoMagic & 0xff);
  return length > 0 && length <= std::max(size, kHeadBytesMax) &&
         (is_message || is_nano);
}

OpenedFile OpenGeDump(std::shared_ptr<const ByteSource> bytes) {
  MSITD_ASSIGN_OR_RETURN(const uint64_t length, bytes->ReadNumber<uint64_t>(0));
  if (length > kHeadBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "GE dump: the head has {} bytes, {} may be", length,
                      kHeadBytesMax);
  }
  const auto text = bytes->ReadText(kLengthBytes, length);
  if (!text.ok()) return Annotate(text.status(), "GE dump: head");
  if (IsGeNano(*text)) return OpenGeNano(*text, bytes, kLengthBytes + length);
  MSITD_RETURN_IF_ERROR(CheckMessageCount(*text));
  ge::DumpData head;
  if (!head.ParseFromString(*text)) {
    return BadGeHead("the head is no message");
  }
  const uint64_t begin = kLengthBytes + length;
  GeRawBytes raw(bytes, begin,
                 SkipsWithoutAddress(head, bytes->size() - begin));
  return std::make_unique<TensorFile>(FileKind::kGeDump, AttributesOf(head),
                                      EntriesOf(head, std::move(raw)));
}

}  // namespace msitd::formats
