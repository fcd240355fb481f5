// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/judge/precision.h"

#include "daemon/compare/judge/basis.h"
#include "daemon/compare/view/tensor_view.h"

namespace msitd::compare {

DType PrecisionOf(const LogicalTensor& tensor) {
  DType out = tensor.dtype;
  if (!IsRearranged(tensor) || !tensor.view->plan.is_computed()) return out;
  for (const DType term : tensor.view->plan.term_dtypes) {
    out = Coarser(out, term);
  }
  return out;
}

}  // namespace msitd::compare
