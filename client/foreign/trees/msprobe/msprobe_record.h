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
  // kStatistics of every tensor: whether its file is there is not known here.
  RecordKind kind = RecordKind::kOther;
  // The value, or the statistics.
  std::string text;
  std::optional<bool> requires_grad;
  // Of a tensor.
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  // The file of a tensor in the folder of tensors; empty if it has none.
  std::string file;
  // What the record has in this place.
  const JsonValue* json = nullptr;
};

struct MsprobeLeaves {
  std::vector<MsprobeLeaf> leaves;
  // What is in the record and was not understood.
  std::vector<absl::Status> problems;
};

// Returns what lies in the record of `entry`, in its order. Borrows `record`.
//
// A tensor of a type that we do not have is a value of kind other, as Python
// writes its description; if it has a file, that file says what it is.
MsprobeLeaves LeavesOfMsprobe(std::string_view entry, const JsonValue& record);

}  // namespace msitd::trees
