// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "daemon/compute/kernel/row_state.h"

// The row kernels once more, one element at a time and written to be read: what
// every SIMD target has to agree with, bit by bit.
namespace msitd::compute {

void ReferenceRowKernel(const std::byte* target, const std::byte* golden,
                        size_t count, Arithmetic arithmetic, RowState& state);

}  // namespace msitd::compute
