// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daemon/compute/element_passes.h"

// The formulas of msit and of msprobe, with their rounding and their treatment
// of zeros, NaN and infinities. Both see the real parts of complex elements
// only. docs/metrics.md has them.
namespace msitd::compute {

std::unique_ptr<ElementPass> MakeMsitPass(DType target, DType golden);

std::unique_ptr<ElementPass> MakeMsprobePass(DType target, DType golden);

}  // namespace msitd::compute
