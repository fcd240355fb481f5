// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compare/shard/assembly.h"
#include "protos/base/dtype.h"

namespace msitd::compare {

// Returns the type that limits the precision of a tensor. The elements of a
// view may have a wider type than the tensors that it reads, because they are
// computed or because these tensors are sums of shards: a sum of float16
// tensors is a float32 tensor. The result is then the coarsest type of these
// tensors.
DType PrecisionOf(const LogicalTensor& tensor);

}  // namespace msitd::compare
