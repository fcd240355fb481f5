// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/compute/kernel/row_state.h"

namespace msitd::compute {

// Adds `count` pairs of elements, which begin at a multiple of kRowChunk
// elements of the tensor, to `state`. Float or double serves for all of them,
// as `arithmetic` says, and the exponents of the state are 0.
using RowKernel = void (*)(const std::byte* target, const std::byte* golden,
                           size_t count, Arithmetic arithmetic,
                           RowState& state);

// Returns the kernel of a target of SupportedKernels().
RowKernel RowKernelOf(int64_t target);

// Returns the kernel of ChosenKernels().
RowKernel ChosenRowKernel();

// Adds pairs in the arithmetic that the pair kernel has found to serve, or a
// more careful one where earlier elements ask for it.
void AddRows(RowKernel kernel, const std::byte* target, const std::byte* golden,
             size_t count, Arithmetic arithmetic, RowState& state);

}  // namespace msitd::compute
