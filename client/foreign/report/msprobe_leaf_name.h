// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "msitd/v1/comparison_service.pb.h"
#include "protos/base/tensor_key.h"

namespace msitd::report {

// The components of the name of a leaf, in msprobe's grammar.
struct LeafName {
  std::string entry;  // `Functional.linear.0.forward`
  std::string leaf;   // `Functional.linear.0.forward.input.0`
  int part = 0;       // The order within its entry.
};

// Returns the key of a side. A key that the name does not provide is that of
// the row.
TensorKey KeyOf(const v1::ComparisonRow& row, const v1::ComparedTensor& side);

// Returns the name of a side in msprobe's report. A tensor has the name of its
// file, in which keyword arguments are `kwargs`. In all other names they are
// `input`.
LeafName NameOf(const v1::ComparisonRow& row, const v1::ComparedTensor& side);

// Returns true for a record of a tensor with elements: neither statistics nor a
// value.
bool IsTensor(const v1::ComparedTensor& side);

}  // namespace msitd::report
