// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/formats/ge/ge_tensor.h"

// The header of a GE dump, which lists the tensors of a task of CANN. Their
// bytes follow the header: inputs, outputs, buffers, workspaces, each as long
// as its `size`. The header is a message in the wire format of protobuf.
// ge_dump.proto, which tests use to create dumps, defines its fields.
namespace msitd::formats {

struct GeInput {
  GeTensor tensor;
  uint32_t arg_index = 0;
  // 7: the tiling of the op, which is not a tensor of the model.
  uint32_t input_type = 0;
};

struct GeOutput {
  GeTensor tensor;
  // The op of the user's graph that produced it; empty if the dump does not
  // specify it.
  std::string original_name;
  uint32_t original_index = 0;
};

struct GeHead {
  std::string version;
  uint64_t dump_time_us = 0;  // Since 1970.
  std::vector<GeInput> inputs;
  std::vector<GeOutput> outputs;
  // Sizes in bytes.
  std::vector<uint64_t> buffers;
  std::vector<uint64_t> workspaces;
  // As in the graph, with all characters.
  std::string op_name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string dfx_message;
};

// Returns INVALID_ARGUMENT if the text is not such a message, and
// RESOURCE_EXHAUSTED if it has more than kTensorsMax parts.
absl::StatusOr<GeHead> ParseGeHead(std::string_view message);

}  // namespace msitd::formats
