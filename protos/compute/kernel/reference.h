// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "protos/base/dtype.h"
#include "protos/compute/kernel/summary_state.h"

// The kernel once more, one element at a time and written to be read: what
// every SIMD target has to agree with, bit by bit. docs/kernels.md says the
// same in words.
namespace msitd::compute {

void ReferenceSummaryKernel(DType component, const std::byte* bytes,
                            size_t count, SummaryState& state);

// Returns the element of `component` at `index`, decoded from its definition.
double ReferenceElement(DType component, const std::byte* bytes, size_t index);

}  // namespace msitd::compute
