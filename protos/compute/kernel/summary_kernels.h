// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "protos/base/dtype.h"
#include "protos/compute/kernel/summary_state.h"

namespace msitd::compute {

// Adds `count` elements of `component`, which is not complex, to `state`.
using SummaryKernel = void (*)(DType component, const std::byte* bytes,
                               size_t count, SummaryState& state);

// Returns the kernel of one Highway target that was compiled in.
SummaryKernel SummaryKernelOf(int64_t target);

}  // namespace msitd::compute
