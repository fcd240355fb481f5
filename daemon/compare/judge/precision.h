// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compare/shard/assembly.h"
#include "protos/base/dtype.h"

namespace msitd::compare {

// Returns the type that limits the precision of a tensor. This is its own type,
// unless a view computes its values: a sum of float16 tensors is a float32
// tensor, but its terms were rounded to float16. The result is then the
// coarsest type of the tensors that the view reads.
DType PrecisionOf(const LogicalTensor& tensor);

}  // namespace msitd::compare
