// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/foreign/trees/json/json_value.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"

// The text that Python's repr returns for values that a tool wrote as JSON.
namespace msitd::trees {

// A record of a value.
struct PythonValue {
  RecordKind kind = RecordKind::kOther;
  std::string text;
};

// Returns a scalar of JSON as a record: `True`, `7`, `inf`, a text as it is,
// `None`. An integer beyond 64 bits is of kind other. Objects and arrays are
// also of kind other, in the form of Python's dicts and lists.
PythonValue DescribeJson(const JsonValue& value);

// Returns `value` as Python's repr does.
std::string ReprOfJson(const JsonValue& value);

// Returns `text` in quotes, as Python's repr does for a str.
std::string ReprOfText(std::string_view text);

// Returns `text` with each NUL replaced by `\x00`, because records contain no
// NUL.
std::string WithoutNul(std::string_view text);

// Parses the name of a type as torch, NumPy and MindSpore write it:
// `torch.float32`, `float32`, `Float32`.
std::optional<DType> ParseTorchDType(std::string_view name);

}  // namespace msitd::trees
