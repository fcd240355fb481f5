// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "daemon/compare/match/tensor_group.h"

namespace msitd::compare {

// Sets LogicalTensor::is_seen_in_part of the tensors without a counterpart that
// views read. The pairs of the group must be known: only views that are
// compared count. Takes time proportional to the number of tensors.
void MarkPartlySeen(TensorGroup& group);

}  // namespace msitd::compare
