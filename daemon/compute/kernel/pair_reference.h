// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "daemon/compute/kernel/pair_state.h"

// The pair kernels once more, one element at a time and written to be read:
// what every SIMD target has to agree with, bit by bit. docs/kernels.md says
// the same in words.
namespace msitd::compute {

void ReferencePairKernel(const std::byte* target, const std::byte* golden,
                         size_t count, PairState& state);

}  // namespace msitd::compute
