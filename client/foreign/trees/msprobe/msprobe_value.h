// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "client/foreign/trees/json/json_value.h"
#include "client/foreign/trees/json/python_text.h"

namespace msitd::trees {

// Returns true for an object that describes one tensor or value.
bool IsMsprobeLeaf(const JsonValue& value);

// Returns true for an object that describes a tensor.
bool IsMsprobeTensor(const JsonValue& value);

// Returns a value such as `{"type": "int", "value": 3}` as a record. A value
// without a repr of its own is written as the dict that describes it.
PythonValue DescribeMsprobe(const JsonValue& leaf);

// Returns the statistics of a tensor in the form of a record: those of
// tensor_statistics.h, with the numbers as they are written.
std::string StatisticsOfMsprobe(const JsonValue& tensor);

}  // namespace msitd::trees
