// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/compute/kernel/pair_state.h"

namespace msitd::compute {

// Adds `count` pairs of elements to `state`, which says their dtypes.
using PairKernel = void (*)(const std::byte* target, const std::byte* golden,
                            size_t count, PairState& state);

// Returns the kernel of a target of SupportedKernels().
PairKernel PairKernelOf(int64_t target);

// Returns the kernel of ChosenKernels().
PairKernel ChosenPairKernel();

}  // namespace msitd::compute
