// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/ge/ge_head.h"

#include <limits>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/wire_reader.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

// A number that is not a valid dimension becomes -1, which CheckShape rejects.
// CheckShape also rejects a shape with one dimension more than the limit, so
// further dimensions are dropped.
void AddDim(uint64_t dim, std::vector<int64_t>& shape) {
  if (shape.size() > kDimsMax) return;
  const bool is_dim = dim <= std::numeric_limits<int64_t>::max();
  shape.push_back(is_dim ? static_cast<int64_t>(dim) : -1);
}

bool ParseShape(std::string_view message, std::vector<int64_t>& shape) {
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() != 1) continue;
    if (reader.has_number()) AddDim(reader.number(), shape);
    if (!reader.has_bytes()) continue;
    PackedNumbers dims(reader.bytes());
    uint64_t dim = 0;
    while (dims.Next(dim)) AddDim(dim, shape);
    if (!dims.is_good()) return false;
  }
  return reader.is_good();
}

// The field numbers of the properties of an input and of an output.
struct TensorFields {
  uint32_t shape;
  uint32_t size;
  uint32_t original_shape;
  uint32_t sub_format;
  uint32_t address;
};

constexpr TensorFields kInputFields = {3, 5, 6, 7, 8};
constexpr TensorFields kOutputFields = {3, 6, 7, 8, 9};

// Parses a field that inputs and outputs have in common. Returns false if it is
// malformed.
bool TakeField(const WireReader& reader, const TensorFields& fields,
               GeTensor& tensor) {
  const uint32_t field = reader.field();
  if (reader.has_bytes()) {
    if (field == fields.shape) return ParseShape(reader.bytes(), tensor.shape);
    if (field == fields.original_shape) {
      return ParseShape(reader.bytes(), tensor.original_shape);
    }
    return true;
  }
  if (!reader.has_number()) return true;
  if (field == 1) {
    const auto type = static_cast<int32_t>(reader.number());
    tensor.type = GeTypeOf(type);
    tensor.has_no_type = type == 0;
  } else if (field == 2) {
    tensor.format = static_cast<int32_t>(reader.number());
  } else if (field == fields.size) {
    tensor.size = reader.number();
  } else if (field == fields.sub_format) {
    tensor.sub_format = static_cast<int32_t>(reader.number());
  } else if (field == fields.address) {
    tensor.address = reader.number();
  }
  return true;
}

// Returns a descriptor with no properties set.
GeTensor EmptyTensor() {
  GeTensor tensor;
  tensor.type = GeTypeOf(0);
  tensor.has_no_type = true;
  return tensor;
}

bool ParseInput(std::string_view message, GeInput& input) {
  input.tensor = EmptyTensor();
  WireReader reader(message);
  while (reader.Next()) {
    if (!TakeField(reader, kInputFields, input.tensor)) return false;
    if (!reader.has_number()) continue;
    const auto number = static_cast<uint32_t>(reader.number());
    if (reader.field() == 10) input.arg_index = number;
    if (reader.field() == 11) input.input_type = number;
  }
  return reader.is_good();
}

bool ParseOriginalOp(std::string_view message, GeOutput& output) {
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() == 1 && reader.has_bytes()) {
      output.original_name = reader.bytes();
    }
    if (reader.field() == 2 && reader.has_number()) {
      output.original_index = static_cast<uint32_t>(reader.number());
    }
  }
  return reader.is_good();
}

bool ParseOutput(std::string_view message, GeOutput& output) {
  output.tensor = EmptyTensor();
  WireReader reader(message);
  while (reader.Next()) {
    if (!TakeField(reader, kOutputFields, output.tensor)) return false;
    if (reader.field() == 4 && reader.has_bytes() &&
        !ParseOriginalOp(reader.bytes(), output)) {
      return false;
    }
  }
  return reader.is_good();
}

// Parses the size of a buffer or a workspace.
bool ParseSize(std::string_view message, uint64_t& size) {
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() == 3 && reader.has_number()) size = reader.number();
  }
  return reader.is_good();
}

// Returns false if there is no name, which means that the message is not an
// attribute.
bool ParseAttribute(std::string_view message,
                    std::pair<std::string, std::string>& attribute) {
  WireReader reader(message);
  while (reader.Next()) {
    if (!reader.has_bytes()) continue;
    if (reader.field() == 1) attribute.first = reader.bytes();
    if (reader.field() == 2) attribute.second = reader.bytes();
  }
  return reader.is_good() && !attribute.first.empty();
}

// An older version has workspaces in the field that other versions use for
// attributes.
void TakeAttribute(std::string_view message, GeHead& head) {
  std::pair<std::string, std::string> attribute;
  if (ParseAttribute(message, attribute)) {
    head.attributes.push_back(std::move(attribute));
    return;
  }
  uint64_t size = 0;
  if (ParseSize(message, size)) head.workspaces.push_back(size);
}

bool TakeMessage(uint32_t field, std::string_view bytes, GeHead& head) {
  switch (field) {
    case 1:
      head.version = bytes;
      return true;
    case 3:
      return ParseOutput(bytes, head.outputs.emplace_back());
    case 4:
      return ParseInput(bytes, head.inputs.emplace_back());
    case 5:
      return ParseSize(bytes, head.buffers.emplace_back());
    case 6:
      head.op_name = bytes;
      return true;
    case 7:
      TakeAttribute(bytes, head);
      return true;
    case 8:
      return ParseSize(bytes, head.workspaces.emplace_back());
    case 9:
      head.dfx_message = bytes;
      return true;
    default:
      return true;
  }
}

}  // namespace

absl::StatusOr<GeHead> ParseGeHead(std::string_view message) {
  GeHead head;
  uint64_t count = 0;
  WireReader reader(message);
  while (reader.Next()) {
    if (reader.field() == 2 && reader.has_number()) {
      head.dump_time_us = reader.number();
    }
    if (!reader.has_bytes()) continue;
    if (++count > kTensorsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "GE dump: it has more than {} tensors", kTensorsMax);
    }
    if (!TakeMessage(reader.field(), reader.bytes(), head)) {
      return absl::InvalidArgumentError(
          "GE dump: the head is not a valid message");
    }
  }
  if (!reader.is_good()) {
    return absl::InvalidArgumentError(
        "GE dump: the head is not a valid message");
  }
  std::erase(head.workspaces, 0);
  return head;
}

}  // namespace msitd::formats
