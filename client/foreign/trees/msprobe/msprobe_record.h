// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "client/foreign/names/msprobe_names.h"
#include "client/foreign/trees/json/json_value.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"

namespace msitd::trees {

// One tensor or value of a record of dump.json.
struct MsprobeLeaf {
  names::MsprobeName name;
  // kStatistics for every tensor, because it is not known here whether its file
  // exists.
  RecordKind kind = RecordKind::kOther;
  // The value, or the statistics.
  std::string text;
  std::optional<bool> requires_grad;
  // For a tensor.
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  // The file of a tensor in the folder of tensors; empty if it has none.
  std::string file;
  // The JSON of the leaf in the record.
  const JsonValue* json = nullptr;
};

struct MsprobeLeaves {
  std::vector<MsprobeLeaf> leaves;
  // The parts of the record that could not be parsed.
  std::vector<absl::Status> problems;
};

// Returns the leaves in the record of `entry`, in order. Borrows `record`.
//
// A tensor of a type that msitd does not support is a value of kind other, with
// the text that Python writes for its description. If it has a file, that file
// determines its type.
MsprobeLeaves LeavesOfMsprobe(std::string_view entry, const JsonValue& record);

}  // namespace msitd::trees
