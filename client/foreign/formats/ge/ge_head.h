// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/foreign/formats/ge/ge_tensor.h"

// The head of a GE dump: which tensors a task of CANN had. Their bytes lie
// behind it: inputs, outputs, buffers, workspaces, each as long as its `size`.
// It is a message in the wire format of protobuf. ge_dump.proto, which tests
// make dumps with, has its fields.
namespace msitd::formats {

struct GeInput {
  GeTensor tensor;
  uint32_t arg_index = 0;
  // 7: how the op was cut into tiles, no tensor of the model.
  uint32_t input_type = 0;
};

struct GeOutput {
  GeTensor tensor;
  // The op of the user's graph that it comes from; empty if it is not said.
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
  // As the graph has it, with all its characters.
  std::string op_name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::string dfx_message;
};

// INVALID_ARGUMENT for what is no such message; RESOURCE_EXHAUSTED if it has
// more than kTensorsMax parts.
absl::StatusOr<GeHead> ParseGeHead(std::string_view message);

}  // namespace msitd::formats
