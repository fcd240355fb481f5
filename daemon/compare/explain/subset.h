// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "daemon/compare/explain/examined_op.h"
#include "daemon/compare/explain/hypothesis.h"

// The indices of a dimension that differ, if the others do not.
namespace msitd::compare::explain {

struct Subset {
  size_t dim = 0;
  size_t count = 0;  // Indices of the dimension.
  std::vector<size_t> indices;
  // The error of all other indices, relative to the norm of the whole tensor.
  double residual = 0;
};

// Returns the smallest part of the tensor that has the whole difference: some
// indices of a dimension, at most half of them. Returns nothing if there is no
// such dimension.
std::optional<Subset> FindSubset(const Examination& pair);

// Returns the indices as an op of their own. Inputs of the same shape are
// reduced as well, and others are left out.
ExaminedOp PartOf(const ExaminedOp& op, const Subset& subset);

}  // namespace msitd::compare::explain
