// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "daemon/compute/element_passes.h"

// Passes with the formulas of msit and of msprobe, including their rounding and
// their treatment of zeros, NaN and infinities. For complex elements, both use
// only the real parts. docs/metrics.md has the formulas.
namespace msitd::compute {

std::unique_ptr<ElementPass> MakeMsitPass(DType target, DType golden);

std::unique_ptr<ElementPass> MakeMsprobePass(DType target, DType golden);

}  // namespace msitd::compute
