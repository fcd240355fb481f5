// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_dump_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/ge/ge_head.h"
#include "client/foreign/formats/ge/ge_nano.h"
#include "client/foreign/formats/ge/ge_tensor.h"
#include "protos/base/shape.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

constexpr uint64_t kLengthBytes = 8;
// Stands for the address of a tensor that always has bytes.
constexpr uint64_t kAnyAddress = 1;

GeRawBytes RawBytesOf(const GeHead& head,
                      std::shared_ptr<const ByteSource> bytes, uint64_t begin) {
  const uint64_t raw_bytes = bytes->size() - begin;
  unsigned __int128 total = 0;
  unsigned __int128 with_address = 0;
  bool has_address = false;
  const auto add = [&](const auto& parts) {
    for (const auto& part : parts) {
      total += part.tensor.size;
      if (part.tensor.address == 0) continue;
      has_address = true;
      with_address += part.tensor.size;
    }
  };
  add(head.inputs);
  add(head.outputs);
  for (const auto* sizes : {&head.buffers, &head.workspaces}) {
    for (const uint64_t size : *sizes) {
      total += size;
      with_address += size;
    }
  }
  // Tensors without an address may have no bytes in the file, although they
  // have a size. Only newer versions write addresses at all.
  const bool skips = has_address && total > raw_bytes;
  return {std::move(bytes), begin, skips,
          (skips ? with_address : total) <= raw_bytes};
}

FileEntry RawEntry(std::string_view name, size_t index, uint64_t size,
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

FileEntry InputEntry(const GeInput& input, size_t index, GeRawBytes& raw) {
  ForeignTensor tensor;
  tensor.io = Io::kInput;
  tensor.index = fmt::format("{}", index);
  if (input.input_type != 0) {
    tensor.attributes["input_type"] = fmt::format("{}", input.input_type);
  }
  if (input.arg_index != 0) {
    tensor.attributes["arg_index"] = fmt::format("{}", input.arg_index);
  }
  return GeEntry(input.tensor, std::move(tensor), raw);
}

FileEntry OutputEntry(const GeOutput& output, size_t index, GeRawBytes& raw) {
  ForeignTensor tensor;
  tensor.io = Io::kOutput;
  tensor.index = fmt::format("{}", index);
  tensor.name = output.original_name;
  if (!tensor.name.empty()) {
    tensor.attributes["output_index"] =
        fmt::format("{}", output.original_index);
  }
  return GeEntry(output.tensor, std::move(tensor), raw);
}

std::vector<FileEntry> EntriesOf(const GeHead& head, GeRawBytes raw) {
  std::vector<FileEntry> entries;
  for (size_t i = 0; i < head.inputs.size(); ++i) {
    entries.push_back(InputEntry(head.inputs[i], i, raw));
  }
  for (size_t i = 0; i < head.outputs.size(); ++i) {
    entries.push_back(OutputEntry(head.outputs[i], i, raw));
  }
  for (size_t i = 0; i < head.buffers.size(); ++i) {
    if (head.buffers[i] == 0) continue;
    entries.push_back(RawEntry("buffer", i, head.buffers[i], raw));
  }
  for (size_t i = 0; i < head.workspaces.size(); ++i) {
    entries.push_back(RawEntry("workspace", i, head.workspaces[i], raw));
  }
  return entries;
}

Attributes AttributesOf(const GeHead& head) {
  Attributes attributes;
  attributes["version"] = head.version;
  attributes["op_name"] = head.op_name;
  if (head.dump_time_us != 0) {
    attributes["dump_time"] = fmt::format("{}", head.dump_time_us);
  }
  attributes["dfx_message"] = head.dfx_message;
  for (const auto& [name, value] : head.attributes) {
    attributes["attr." + name] = value;
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
                      "GE dump: the head has {} bytes; the maximum is {}",
                      length, kHeadBytesMax);
  }
  const auto text = bytes->ReadText(kLengthBytes, length);
  if (!text.ok()) return Annotate(text.status(), "GE dump: head");
  if (IsGeNano(*text)) return OpenGeNano(*text, bytes, kLengthBytes + length);
  MSITD_ASSIGN_OR_RETURN(const GeHead head, ParseGeHead(*text));
  const uint64_t begin = kLengthBytes + length;
  return std::make_unique<TensorFile>(
      FileKind::kGeDump, AttributesOf(head),
      EntriesOf(head, RawBytesOf(head, std::move(bytes), begin)));
}

}  // namespace msitd::formats
