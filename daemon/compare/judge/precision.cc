// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/precision.h"

#include "daemon/compare/judge/basis.h"
#include "daemon/compare/view/tensor_view.h"

namespace msitd::compare {

DType PrecisionOf(const LogicalTensor& tensor) {
  DType out = tensor.dtype;
  if (!IsRearranged(tensor)) return out;
  for (const LogicalTensor& leaf : LeavesOf(tensor)) {
    out = Coarser(out, leaf.dtype);
  }
  return out;
}

}  // namespace msitd::compare
