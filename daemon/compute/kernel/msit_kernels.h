// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "daemon/compute/kernel/msit_sums.h"

namespace msitd::compute {

// Adds `count` pairs of floats, from lane 0 on, to `sums`. `count` is a
// multiple of the lanes. Unless an element is not finite, all kernels leave the
// same bits.
using MsitKernel = void (*)(const std::byte* target, const std::byte* golden,
                            size_t count, MsitSums& sums);

// Returns the kernel of a target of SupportedKernels().
MsitKernel MsitKernelOf(int64_t target);

// Returns the kernel of ChosenKernels().
MsitKernel ChosenMsitKernel();

}  // namespace msitd::compute
